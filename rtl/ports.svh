    // The port contract: README.md.
    // verilator lint_off UNUSEDSIGNAL
    input  wire                      clk,
    input  wire                      rst,        // synchronous
    // A request is accepted in a cycle in which both are 1.
    input  wire                      req_valid,
    output wire                      req_ready,
    input  wire  [              2:0] req_op,     // tlb_pkg
    input  wire                      req_fetch,
    input  wire                      req_store,
    input  wire  [       ASID_W-1:0] req_asid,
    input  wire  [        VPN_W-1:0] req_vpn,    // the page; FILL of a range: its BASE
    input  wire  [        VPN_W-1:0] req_limit,  // FILL of a range: LIMIT, one past its last page
    input  wire  [        PFN_W-1:0] req_pfn,    // FILL: the frame; of a range OFFSET, modulo 2^PFN_W
    input  wire  [       ATTR_W-1:0] req_attr,   // FILL: its attributes
    input  wire  [       SIZE_W-1:0] req_size,   // FILL: log2 of the base pages that the entry translates as one
    input  wire  [      ENTRIES-1:0] locked,     // entries that replacement must not name
    // verilator lint_on UNUSEDSIGNAL
    // One answer for each request, in their order; that of a lookup after LATENCY cycles.
    output logic                     ans_valid,
    output logic                     ans_hit,    // LOOKUP: an entry translates the page
    output logic                     ans_part,   // LOOKUP: none does, but one has its tag (T94-9)
    output logic                     ans_evict,  // FILL: another entry went for it
    output logic [       SLOT_W-1:0] ans_slot,   // LOOKUP: that entry; FILL: the one that was filled
    output logic [        PFN_W-1:0] ans_pfn,    // LOOKUP: the frame
    output logic [       ATTR_W-1:0] ans_attr,   // LOOKUP: its attributes
    output logic [       SIZE_W-1:0] ans_size,   // LOOKUP: log2 of the base pages that the entry translates as one
    // What software reads: which parts of an entry are valid and modified (T94-19), used bits (T94-14).
    output wire  [ENTRIES*PARTS-1:0] valid,
    output wire  [ENTRIES*PARTS-1:0] modified,
    output wire  [      ENTRIES-1:0] used
