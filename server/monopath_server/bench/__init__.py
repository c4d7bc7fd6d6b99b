"""The benchmark: the pipeline and the server beside what they are held against, in rounds that take turns.

Every figure is the median of samples that were taken in turn with those it is compared with, so that whatever else the
machine does hits all of them. Nothing here asserts a time: the bars are printed beside the figures.

`benchmark` runs the sections (`cpu`, `served`, `latency`, `memory`) and fills a `sheet`; `report` makes the JSON of it.
"""
