"""
Survey weights
==============

x
"""
print(1)
