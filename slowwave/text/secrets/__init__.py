"""What a secret looks like: issuers' forms, rules, and a scorer of words beside others."""
