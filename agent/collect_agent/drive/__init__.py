"""Programs that are not ours: started with the start-up shim in their environment, followed by its receipts.

`program` is the outline; `receipts` reads what the shim writes, `story` makes the run's reports of it, `lost`,
`misplaced` and `diagnosis` say what went wrong, `http` talks to a server, with `prompts`. `attend` is the outline for a
program that runs already, `jobs` what it writes.
"""
