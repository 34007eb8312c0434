"""Colours of the plots."""

# Blue, orange, green ... of Okabe and Ito, which (nearly) everyone can distinguish.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
DOUBT = "#B00020"
