"""Controls of a method: what its tokens alone, and messages as such, would have answered."""
