"""What a broker does for transactions of which it leads a part: it asks the coordinators that keep them."""
