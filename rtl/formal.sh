#!/usr/bin/env bash
# formal.sh [NAME...]: proves what formal.sv says of the modules, and what they say of themselves, for all sequences of
# requests of a number of cycles after a reset. Yosys makes a circuit of module and properties, and the SAT solver of
# its abc unrolls it. Sizes are small; what is proved is proved of these sizes. Without names, all runs.
#
# DIR=FOLDER: modules are read there instead of here, which is how the tests see that mistakes are found.
# WORK=FOLDER: for intermediate files and counterexamples.
set -uo pipefail
cd "$(dirname "$0")"
here=$PWD
work=${WORK:-$here/../target/formal}
mkdir -p "$work" && work=$(cd "$work" && pwd) || exit 1
cd "${DIR:-.}" || exit 1

for need in yosys yosys-abc; do
  command -v $need >/dev/null || {
    echo "formal.sh: $need is missing: the Debian package yosys has it, 'make rtl-deps' installs it" >&2
    exit 1
  }
done

# NAME MODULE CYCLES PARAMETERS-OF-formal.sv PARAMETERS-OF-THE-MODULE DEFINITIONS
runs() {
  cat <<'RUNS'
single       single          24 ENTRIES=3            -                            -
single-lru   single          20 ENTRIES=3            .POLICY(1)                   -
single-lfsr  single          20 ENTRIES=3            .POLICY(3)                   -
superpage    superpage       20 ENTRIES=3            -                            HAS_SIZES
complete     complete        20 ENTRIES=2,PARTS=2    .FACTOR(PARTS),.PARTS(PARTS) -
partial      partial         20 ENTRIES=2,PARTS=2    .FACTOR(PARTS),.PARTS(PARTS) -
integrated   integrated      20 ENTRIES=2,PARTS=2    .FACTOR(PARTS),.PARTS(PARTS) HAS_SIZES
sets         set_associative 20 ENTRIES=4,WAYS=2     .WAYS(WAYS),.BANKS(1),.DEEP(0)  -
sets-deep    set_associative 26 ENTRIES=4,WAYS=2     .WAYS(WAYS),.BANKS(1),.DEEP(1)  LATENCY=6
range        range_tlb       26 ENTRIES=2            .BANKS(1)                    LATENCY=6,IS_RANGE
clustered    clustered       20 ENTRIES=2,PARTS=2    .FACTOR(PARTS),.PARTS(PARTS) HAS_LINE
segment      segment         20 ENTRIES=1,SLOT_W=1   -                            IS_SEGMENT
RUNS
}

failed=0
modules=$(ls ./*.sv | grep -v -e /formal.sv -e /tlb_pkg.sv | tr '\n' ' ')
while read -r name module cycles formal own definitions; do
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  {
    echo "\`define DUT $module"
    echo "\`define PARAMETERS .ENTRIES(ENTRIES), .ASID_W(ASID_W), .VPN_W(VPN_W), .PFN_W(PFN_W), .ATTR_W(ATTR_W)," \
      ".SIZE_W(SIZE_W)$([ "$own" = - ] || echo ", $own")"
    [ "$definitions" = - ] || tr ',=' '\n ' <<<"$definitions" | sed 's/^/`define /'
    cat "$here/formal.sv"
  } >"$work/$name.sv"
  set=$(tr ',=' '\n ' <<<"$formal" | sed 's/^/-set /' | tr '\n' ' ')
  yosys -q -l "$work/$name.log" -p "read_verilog -formal -sv tlb_pkg.sv
    read_verilog -formal -sv -defer -I. $modules $work/$name.sv
    chparam $set formal; hierarchy -top formal; prep -top formal -flatten; memory_map; opt -full; async2sync; dffunmap
    setundef -anyseq; techmap; simplemap; opt; dffunmap; abc -g AND -fast; opt_clean
    write_aiger -zinit $work/$name.aig" >/dev/null 2>&1 ||
    { echo "$name: yosys failed: $work/$name.log" >&2; failed=1; continue; }
  begun=$SECONDS
  yosys-abc -c "read_aiger $work/$name.aig; fold; orpos; strash; bmc3 -F $cycles -T 600
    write_cex -n $work/$name.cex" >"$work/$name.txt" 2>&1
  if grep -q "No output asserted in $cycles frames" "$work/$name.txt"; then
    printf '%-12s %-20s proved for %d cycles, %d s\n' "$name" "$module.sv" "$cycles" $((SECONDS - begun))
  elif frame=$(grep -o 'asserted in frame [0-9]*' "$work/$name.txt"); then
    printf '%-12s %-20s does not hold, cycle %s: %s\n' "$name" "$module.sv" "${frame##* }" "$work/$name.cex"
    failed=1
  else
    printf '%-12s %-20s not finished: %s\n' "$name" "$module.sv" "$work/$name.txt"
    failed=1
  fi
done < <(runs)
exit $failed
