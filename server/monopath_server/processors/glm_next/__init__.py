"""GLM5-Next for still images: a canvas of whole windows, padded with zero pixels."""
