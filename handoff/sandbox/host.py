WARNING=""
def missing(): return "x"
