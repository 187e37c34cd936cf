// A fully associative TLB whose entries have a page size each: T94-4 (entry), T94-9 (lookup), T94-11 (fill), T94-14,
// T94-18, T94-42 (demotion). Sizes are powers of two of base pages, up to 2^(2^SIZE_W - 1) (AMB-21).
module superpage #(
    parameter int ENTRIES = 64,
    parameter int ASID_W = 12,
    parameter int VPN_W = 52,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8,
    parameter int SIZE_W = 4,
    parameter int POLICY = tlb_pkg::USED_BIT,
    parameter int FILL_SETS_USED = 1,
    parameter int SEED = 'hace1,
    parameter int PARTS = 1,
    parameter int SLOT_W = $clog2(ENTRIES)
) (
`include "ports.svh"
);
  // LATENCY 3: stage 1 compares, stage 2 reads, the answer is a register.
  localparam int WIDTH = 1 + SIZE_W + ASID_W + VPN_W + PFN_W + ATTR_W;
  localparam int MASK = 2 ** SIZE_W - 1;  // bits of a page number that a size can take out of the comparison
  wire [1:0] at;
  wire [5:0] ops;
  wire [2*WIDTH-1:0] stages;
  tlb_port #(.WIDTH(WIDTH), .DEPTH(2)) port (
      .clk(clk),
      .rst(rst),
      .req_valid(req_valid),
      .req_ready(req_ready),
      .req_op(req_op),
      .req({req_store, req_size, req_asid, req_vpn, req_pfn, req_attr}),
      .hold(1'b0),
      .valid(at),
      .op(ops),
      .stage(stages)
  );

  // Tags are compared all at once, the rest is read from memory. The size is part of the tag.
  (* mem2reg *) logic [ASID_W-1:0] asid[0:ENTRIES-1];
  (* mem2reg *) logic [VPN_W-1:0] vpn[0:ENTRIES-1];
  (* mem2reg *) logic [SIZE_W-1:0] size[0:ENTRIES-1];
  logic [PFN_W-1:0] pfn[0:ENTRIES-1];
  logic [ATTR_W-1:0] attr[0:ENTRIES-1];
  logic [ENTRIES-1:0] is_valid, is_modified;
  assign valid = is_valid;
  assign modified = is_modified;

  // The low bits that a page of this size has for its offset.
  function automatic [MASK-1:0] below(input [SIZE_W-1:0] order);
    for (int i = 0; i < MASK; i++) below[i] = i[SIZE_W-1:0] < order;
  endfunction

  // --- stage 1: which entries match ---
  wire [SIZE_W-1:0] m_size = stages[ATTR_W+PFN_W+VPN_W+ASID_W+:SIZE_W];
  wire [ASID_W-1:0] m_asid = stages[ATTR_W+PFN_W+VPN_W+:ASID_W];
  wire [VPN_W-1:0] m_vpn = stages[ATTR_W+PFN_W+:VPN_W];
  wire m_fill = ops[2:0] == tlb_pkg::FILL;
  wire m_space = ops[2:0] == tlb_pkg::DROP_SPACE;
  wire [MASK-1:0] m_below = m_fill ? below(m_size) : '0;
  logic [ENTRIES-1:0] equal, match;
  logic [VPN_W-1:0] differs;
  logic wide;
  always_comb begin
    for (int i = 0; i < ENTRIES; i++) begin
      // A fill matches all that it covers (AMB-13).
      differs = (vpn[i] ^ m_vpn) & ~{{VPN_W - MASK{1'b0}}, below(size[i]) | m_below};
      wide = size[i] != '0;
      equal[i] = is_valid[i] && asid[i] == m_asid && (differs == '0 || m_space) &&
          (wide || ops[2:0] != tlb_pkg::DEMOTE);
    end
  end
  always_ff @(posedge clk) if (at[0]) match <= equal;

  // --- stage 2: their effect ---
  wire store;
  wire [SIZE_W-1:0] c_size;
  wire [ASID_W-1:0] c_asid;
  wire [VPN_W-1:0] c_vpn;
  wire [PFN_W-1:0] c_pfn;
  wire [ATTR_W-1:0] c_attr;
  assign {store, c_size, c_asid, c_vpn, c_pfn, c_attr} = stages[WIDTH+:WIDTH];
  wire [2:0] op = ops[5:3];
  wire lookup = at[1] && op == tlb_pkg::LOOKUP;
  wire fill = at[1] && op == tlb_pkg::FILL;
  wire drop = at[1] && (op == tlb_pkg::DROP_PAGE || op == tlb_pkg::DROP_SPACE || op == tlb_pkg::DEMOTE);
  wire hit = match != '0;
  wire [ENTRIES-1:0] kept = is_valid & ~(fill ? match : '0);
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
  wire [SLOT_W-1:0] slot;
  encode #(.WIDTH(ENTRIES)) encode_slot (.one(fill ? victim : match), .index(slot));

  always_ff @(posedge clk) begin
    if (rst) begin
      is_valid <= '0;
      is_modified <= '0;
    end else if (fill) begin
      is_valid <= kept | victim;
      is_modified <= (is_modified & kept & ~victim) | (victim & {ENTRIES{store}});
    end else if (lookup && store) begin
      is_modified <= is_modified | match;
    end else if (drop) begin
      is_valid <= is_valid & ~match;
      is_modified <= is_modified & ~match;
    end else if (at[1] && op == tlb_pkg::DROP_ALL) begin
      is_valid <= '0;
      is_modified <= '0;
    end
    for (int i = 0; i < ENTRIES; i++) begin
      if (fill && victim[i]) begin
        asid[i] <= c_asid;
        vpn[i] <= c_vpn;
        size[i] <= c_size;
      end
    end
    if (fill) begin
      pfn[slot] <= c_pfn;
      attr[slot] <= c_attr;
    end
  end

  // --- the answer: low bits are those of the page looked up ---
  logic [SIZE_W-1:0] found;
  always_comb begin
    found = '0;
    for (int i = 0; i < ENTRIES; i++) if (match[i]) found = found | size[i];
  end
  wire [PFN_W-1:0] low = {{PFN_W - MASK{1'b0}}, below(found)};
  assign ans_part = 1'b0;
  always_ff @(posedge clk) begin
    ans_valid <= at[1] && !rst;
    if (at[1]) begin
      ans_hit <= lookup && hit;
      ans_evict <= fill && (kept & victim) != '0;
      ans_slot <= slot;
      ans_pfn <= (pfn[slot] & ~low) | (c_vpn[PFN_W-1:0] & low);
      ans_attr <= attr[slot];
      ans_size <= found;
    end
  end

`ifdef FORMAL
  // At most one entry matches (T94-17).
  always @(posedge clk) if (!rst && lookup) assert ((match & (match - 1'b1)) == '0);
`endif
endmodule
