// Some entries of a range TLB (range_tlb.sv), with registers of their own for what is asked of them: RMM15-1 (BASE,
// LIMIT, OFFSET, protection), RMM15-2 (two comparators for each: BASE <= page < LIMIT).
module range_bank #(
    parameter int ENTRIES = 8,
    parameter int ASID_W = 12,
    parameter int VPN_W = 36,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8
) (
    input  wire                clk,
    input  wire                rst,
    // A request, which is copied into the bank if `select`, and what it finds three cycles later.
    input  wire                select,
    input  wire                all_pages,  // all ranges of the address space match
    input  wire  [ ASID_W-1:0] asid,
    input  wire  [  VPN_W-1:0] first,      // the pages looked for: one, or those of a new range; its BASE
    input  wire  [    VPN_W:0] bound,      // above the last of them, in halves of a page
    input  wire  [  VPN_W-1:0] limit,      // of a new range
    input  wire  [  PFN_W-1:0] offset,
    input  wire  [ ATTR_W-1:0] attr,
    output logic [ENTRIES-1:0] match,
    output logic [  PFN_W-1:0] match_offset,
    output logic [ ATTR_W-1:0] match_attr,
    // Changes, a cycle later: the search for the victim and what enables its registers have a cycle each.
    input  wire  [ENTRIES-1:0] fill,       // takes the range of the request
    input  wire  [ENTRIES-1:0] drop,
    output logic [ENTRIES-1:0] valid
);
  logic [2:0] there;
  logic r_all;
  logic [ASID_W-1:0] r_asid;
  logic [VPN_W-1:0] r_first, r_limit;
  logic [VPN_W:0] r_bound;
  logic [PFN_W-1:0] r_offset;
  logic [ATTR_W-1:0] r_attr;
  always_ff @(posedge clk) begin
    there <= rst ? '0 : {there[1:0], select};
    if (select) begin
      r_all <= all_pages;
      r_asid <= asid;
      r_first <= first;
      r_bound <= bound;
      r_limit <= limit;
      r_offset <= offset;
      r_attr <= attr;
    end
  end

  (* mem2reg *) logic [ASID_W-1:0] e_asid[0:ENTRIES-1];
  (* mem2reg *) logic [VPN_W-1:0] e_base[0:ENTRIES-1];
  (* mem2reg *) logic [VPN_W-1:0] e_limit[0:ENTRIES-1];
  (* mem2reg *) logic [PFN_W-1:0] e_offset[0:ENTRIES-1];
  (* mem2reg *) logic [ATTR_W-1:0] e_attr[0:ENTRIES-1];
  logic [ENTRIES-1:0] c_fill, c_drop;
  always_ff @(posedge clk) begin
    c_fill <= rst ? '0 : fill;
    c_drop <= rst ? '0 : drop;
    valid <= rst ? '0 : (valid & ~c_drop) | c_fill;
    for (int i = 0; i < ENTRIES; i++) begin
      if (c_fill[i]) begin
        e_asid[i] <= r_asid;
        e_base[i] <= r_first;
        e_limit[i] <= r_limit;
        e_offset[i] <= r_offset;
        e_attr[i] <= r_attr;
      end
    end
  end

  // Two comparators for each entry, a cycle; what they say together, a cycle; what the entry holds, a cycle.
  logic [ENTRIES-1:0] mine, from_base, to_limit, found;
  logic all_found;
  logic [PFN_W-1:0] next_offset;
  logic [ATTR_W-1:0] next_attr;
  always_comb begin
    next_offset = '0;
    next_attr = '0;
    for (int i = 0; i < ENTRIES; i++) begin
      if (found[i]) begin
        next_offset = next_offset | e_offset[i];
        next_attr = next_attr | e_attr[i];
      end
    end
  end
  always_ff @(posedge clk) begin
    if (there[0]) begin
      all_found <= r_all;
      for (int i = 0; i < ENTRIES; i++) begin
        mine[i] <= valid[i] && e_asid[i] == r_asid;
        from_base[i] <= {e_base[i], 1'b0} < r_bound;
        to_limit[i] <= r_first < e_limit[i];
      end
    end
    if (there[1]) found <= mine & ((from_base & to_limit) | {ENTRIES{all_found}});
    if (there[2]) begin
      match <= found;
      match_offset <= next_offset;
      match_attr <= next_attr;
    end
  end
endmodule
