"""Whether the files of a store are whole: seals, digests, what was synced, what a power cut left."""
