# Its classes are open to users, who derive from them: compiled, and left as they are.
