"""Write src/agon/train/options.json: every option of `agon train` with its kind, default and choices.

The command line reads that table in place of `AgonConfig`, because importing torch and TRL takes seconds
and a wrong option should be answered at once. Run this after a change to `AgonConfig` or to the version
of TRL; tests/train/test_option_table.py fails until then.

    python scripts/option_table.py
"""

from agon.train.option_rows import write_rows

if __name__ == "__main__":
    print(f"wrote {write_rows()}")
