"""From text to `Translation`: segmentation, search, fallback decoding, assembly."""
