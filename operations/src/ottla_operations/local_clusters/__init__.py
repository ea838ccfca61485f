"""What a local cluster of `ottla up` tells of itself."""
