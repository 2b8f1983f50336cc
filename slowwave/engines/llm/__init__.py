"""Language models behind one protocol, and the layers over them."""
