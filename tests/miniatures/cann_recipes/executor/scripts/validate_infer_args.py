"""Before anything starts: is there such a file?"""

import argparse
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["offline", "online"], required=True)
parser.add_argument("--yaml", required=True)
options = parser.parse_args()
if not os.path.isfile(options.yaml):
    sys.exit(f"ERROR: {options.yaml} is not a file")
