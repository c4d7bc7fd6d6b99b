"""Per model family: the typed config, presets and pure geometry. Sizes in, plans out; no pixels, no gRPC."""
