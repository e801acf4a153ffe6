"""An exact laboratory for off-policy training: a problem whose J and KLs are sums, and many seeds at once."""
