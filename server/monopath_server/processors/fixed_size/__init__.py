"""CLIP and SigLIP: every image gets one size, by an exact resize or by its shortest edge and a centre crop."""
