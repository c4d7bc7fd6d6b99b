"""The GLM-4.xV family (GLM-4.1V, GLM-4.5V, GLM-4.6V, GLM-OCR) for still images."""
