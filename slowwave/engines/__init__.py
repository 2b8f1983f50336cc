"""Every model behind a small Protocol, and a plain fake of each that ships."""
