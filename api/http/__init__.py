"""Reading requests and shaping routes: heads, bodies, pagination and merge patches."""
