#!/usr/bin/env python3
"""Makes the golden values in tests/golden with PyTorch, transformers, PEFT, bitsandbytes and gguf.

    pip install -r scripts/requirements.txt
    scripts/make_golden.py --out tests/golden                 # everything, about a minute
    scripts/make_golden.py --out tests/golden quant models    # only these sections

Each section is seeded by itself, so making one alone gives the same files. tests/golden/README.md says what every file holds.
"""

import argparse
import pathlib

from golden.bnb_model import make_bnb
from golden.common import quiet_and_deterministic
from golden.gguf_model import make_gguf
from golden.models import make_models
from golden.quant import make_quant
from golden.runs import make_adamw, make_run, make_schedules

SECTIONS = {"models": make_models, "gguf": make_gguf, "bnb": make_bnb, "quant": make_quant, "run": make_run, "schedules": make_schedules,
            "adamw": make_adamw}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="the folder to fill, e.g. tests/golden")
    parser.add_argument("sections", nargs="*", metavar="section", help=f"of {', '.join(SECTIONS)}; all where none is given")
    args = parser.parse_args()
    unknown = [s for s in args.sections if s not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    quiet_and_deterministic()
    for name in args.sections or SECTIONS:
        print(name, flush=True)
        SECTIONS[name](args.out)


if __name__ == "__main__":
    main()
