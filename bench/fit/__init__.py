"""Models that ship, fitted on labelled sentences and pairs, and judged on what they did not see."""
