// A range TLB: RMM15-1 and RMM15-2 (entry: BASE, LIMIT, OFFSET, protection), RMM15-4 (a hit gives the page plus
// OFFSET), RMM15-11 and AMB-80 (replacement), RMM15-12 (a page drops the range around it), RMM15-13. A fill drops
// what it overlaps, such as a shorter form of the same range.
//
// LATENCY 6, as in RMM15 8.4:
// request | copy in each bank | BASE and LIMIT compared | both together | OFFSET of the bank | OFFSET added.
module range_tlb #(
    parameter int ENTRIES = 32,
    parameter int BANKS = 4,
    parameter int ASID_W = 12,
    parameter int VPN_W = 36,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8,
    parameter int SIZE_W = 4,
    parameter int POLICY = tlb_pkg::LRU,
    parameter int FILL_SETS_USED = 1,
    parameter int SEED = 'hace1,
    parameter int PARTS = 1,
    parameter int SLOT_W = $clog2(ENTRIES)
) (
`include "ports.svh"
);
  localparam int DEPTH = 5;
  localparam int WIDTH = ASID_W + VPN_W + VPN_W + PFN_W + ATTR_W;
  wire [DEPTH-1:0] at;
  wire [3*DEPTH-1:0] ops;
  wire [WIDTH*DEPTH-1:0] stages;
  tlb_port #(.WIDTH(WIDTH), .DEPTH(DEPTH)) port (
      .clk(clk),
      .rst(rst),
      .req_valid(req_valid),
      .req_ready(req_ready),
      .req_op(req_op),
      .req({req_asid, req_limit, req_vpn, req_pfn, req_attr}),
      .hold(1'b0),
      .valid(at),
      .op(ops),
      .stage(stages)
  );

  // --- stages 1 to 4: in the banks ---
  localparam int EACH = ENTRIES / BANKS;
  wire [ASID_W-1:0] s_asid;
  wire [VPN_W-1:0] s_limit, s_vpn;
  wire [PFN_W-1:0] s_offset;
  wire [ATTR_W-1:0] s_attr;
  assign {s_asid, s_limit, s_vpn, s_offset, s_attr} = stages[WIDTH-1:0];
  // The bound below which the BASE of a range must lie, to have a page that is looked for: LIMIT of a new range. For
  // one page it is the next; that is half a page further than the page, so that nothing has to be added.
  wire s_new = ops[2:0] == tlb_pkg::FILL;
  wire [VPN_W:0] s_bound = {s_new ? s_limit : s_vpn, !s_new};
  wire [ENTRIES-1:0] match, fills, drops;
  wire [BANKS*PFN_W-1:0] offsets;
  wire [BANKS*ATTR_W-1:0] attrs;
  generate
    for (genvar b = 0; b < BANKS; b++) begin : g_bank
      range_bank #(
          .ENTRIES(EACH),
          .ASID_W(ASID_W),
          .VPN_W(VPN_W),
          .PFN_W(PFN_W),
          .ATTR_W(ATTR_W)
      ) bank (
          .clk(clk),
          .rst(rst),
          .select(at[0]),
          .all_pages(ops[2:0] == tlb_pkg::DROP_SPACE),
          .asid(s_asid),
          .first(s_vpn),
          .bound(s_bound),
          .limit(s_limit),
          .offset(s_offset),
          .attr(s_attr),
          .match(match[b*EACH+:EACH]),
          .match_offset(offsets[b*PFN_W+:PFN_W]),
          .match_attr(attrs[b*ATTR_W+:ATTR_W]),
          .fill(fills[b*EACH+:EACH]),
          .drop(drops[b*EACH+:EACH]),
          .valid(valid[b*EACH+:EACH])
      );
    end
  endgenerate

  // --- stage 5: the effect of the match ---
  wire [VPN_W-1:0] c_vpn = stages[(DEPTH-1)*WIDTH+ATTR_W+PFN_W+:VPN_W];
  wire [2:0] op = ops[3*(DEPTH-1)+:3];
  wire lookup = at[DEPTH-1] && op == tlb_pkg::LOOKUP;
  wire fill = at[DEPTH-1] && op == tlb_pkg::FILL;
  wire drop = at[DEPTH-1] && (op == tlb_pkg::DROP_PAGE || op == tlb_pkg::DROP_SPACE);
  wire all = at[DEPTH-1] && op == tlb_pkg::DROP_ALL;
  wire hit = match != '0;
  wire [ENTRIES-1:0] kept = valid & ~match;
  wire [ENTRIES-1:0] victim;
  replacement #(
      .ENTRIES(ENTRIES),
      .POLICY(POLICY),
      .FILL_SETS_USED(FILL_SETS_USED),
      .SEED(SEED)
  ) replacement (
      .clk(clk),
      .rst(rst),
      .valid(kept),
      .locked(locked),
      .touch(lookup && hit),
      .join_(1'b0),
      .place(fill),
      .way(match),
      .victim(victim),
      .used(used)
  );
  assign fills = fill ? victim : '0;
  assign drops = all ? '1 : fill || drop ? match : '0;
  assign modified = '0;  // RMM15-28

  // --- the answer ---
  wire [SLOT_W-1:0] slot;
  encode #(.WIDTH(ENTRIES)) encode_slot (.one(fill ? victim : match), .index(slot));
  logic [PFN_W-1:0] offset;
  logic [ATTR_W-1:0] attr;
  always_comb begin
    offset = '0;
    attr = '0;
    for (int i = 0; i < BANKS; i++) begin
      offset = offset | offsets[i*PFN_W+:PFN_W];
      attr = attr | attrs[i*ATTR_W+:ATTR_W];
    end
  end
  assign ans_part = 1'b0;
  assign ans_size = '0;
  always_ff @(posedge clk) begin
    ans_valid <= at[DEPTH-1] && !rst;
    if (at[DEPTH-1]) begin
      ans_hit <= lookup && hit;
      ans_evict <= fill && (kept & victim) != '0;
      ans_slot <= slot;
      ans_pfn <= c_vpn[PFN_W-1:0] + offset;
      ans_attr <= attr;
    end
  end

`ifdef FORMAL
  // At most one entry matches (T94-17).
  always @(posedge clk) if (!rst && lookup) assert ((match & (match - 1'b1)) == '0);
`endif
endmodule
