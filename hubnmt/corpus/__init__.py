"""Translation of a corpus of many files: `shards` reads and writes them, `ray_data` distributes."""
