"""What goes on in a cluster, as `ottla top` shows it: samples, and the rates between two of them."""
