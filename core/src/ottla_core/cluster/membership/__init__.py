"""A process's place in the cluster: its registration, the election of the controller, and what is checked before."""
