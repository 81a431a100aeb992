def machine(): return {}
def page(r): return ""
def plots(r,h): pass
