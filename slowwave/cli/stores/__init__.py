"""Commands on stores as a whole: releases, ledgers, checks, copies, settings, probes."""
