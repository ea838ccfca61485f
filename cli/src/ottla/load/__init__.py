"""The load programs behind `ottla bench`: they drive any cluster and measure from the client's side."""
