"""The endpoints of conversations, and the items that clients put into them."""
