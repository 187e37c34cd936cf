// A fully associative complete-subblock TLB: T94-5 (entry), T94-9 (lookup), T94-12 (fill), T94-14, T94-18, T94-19. A
// tag for each region of FACTOR pages, and for each page a frame, attributes, a valid and a modified bit of its own.
module complete #(
    parameter int ENTRIES = 64,
    parameter int FACTOR = 16,
    parameter int ASID_W = 12,
    parameter int VPN_W = 52,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8,
    parameter int SIZE_W = 4,
    parameter int POLICY = tlb_pkg::USED_BIT,
    parameter int FILL_SETS_USED = 1,
    parameter int SEED = 'hace1,
    parameter int PARTS = FACTOR,
    parameter int SLOT_W = $clog2(ENTRIES)
) (
`include "ports.svh"
);
  // LATENCY 3: stage 1 compares, stage 2 reads, the answer is a register.
  localparam int WIDTH = 1 + ASID_W + VPN_W + PFN_W + ATTR_W;
  localparam int PART_W = $clog2(FACTOR);
  localparam int TAG_W = VPN_W - PART_W;
  wire [1:0] at;
  wire [5:0] ops;
  wire [2*WIDTH-1:0] stages;
  tlb_port #(.WIDTH(WIDTH), .DEPTH(2)) port (
      .clk(clk),
      .rst(rst),
      .req_valid(req_valid),
      .req_ready(req_ready),
      .req_op(req_op),
      .req({req_store, req_asid, req_vpn, req_pfn, req_attr}),
      .hold(1'b0),
      .valid(at),
      .op(ops),
      .stage(stages)
  );

  // Tags are compared all at once, the rest is read from memory, a word for each page.
  (* mem2reg *) logic [ASID_W-1:0] asid[0:ENTRIES-1];
  (* mem2reg *) logic [TAG_W-1:0] tag[0:ENTRIES-1];
  logic [PFN_W-1:0] pfn[0:ENTRIES*FACTOR-1];
  logic [ATTR_W-1:0] attr[0:ENTRIES*FACTOR-1];
  logic [ENTRIES*FACTOR-1:0] is_valid, is_modified;
  assign valid = is_valid;
  assign modified = is_modified;
  logic [ENTRIES-1:0] taken;  // some page of the entry is valid
  always_comb begin
    for (int i = 0; i < ENTRIES; i++) taken[i] = is_valid[i*FACTOR+:FACTOR] != '0;
  end

  // --- stage 1: which entries have the tag, which of them the page ---
  wire [ASID_W-1:0] m_asid = stages[ATTR_W+PFN_W+VPN_W+:ASID_W];
  wire [VPN_W-1:0] m_vpn = stages[ATTR_W+PFN_W+:VPN_W];
  wire [FACTOR-1:0] m_part = {{FACTOR - 1{1'b0}}, 1'b1} << m_vpn[PART_W-1:0];
  wire m_space = ops[2:0] == tlb_pkg::DROP_SPACE;
  logic [ENTRIES-1:0] tag_equal, equal, tag_match, match;
  always_comb begin
    for (int i = 0; i < ENTRIES; i++) begin
      tag_equal[i] = taken[i] && asid[i] == m_asid && (tag[i] == m_vpn[VPN_W-1:PART_W] || m_space);
      equal[i] = tag_equal[i] && (is_valid[i*FACTOR+:FACTOR] & m_part) != '0;
    end
  end
  always_ff @(posedge clk) begin
    if (at[0]) begin
      tag_match <= tag_equal;
      match <= equal;
    end
  end

  // --- stage 2: their effect ---
  wire store;
  wire [ASID_W-1:0] c_asid;
  wire [VPN_W-1:0] c_vpn;
  wire [PFN_W-1:0] c_pfn;
  wire [ATTR_W-1:0] c_attr;
  assign {store, c_asid, c_vpn, c_pfn, c_attr} = stages[WIDTH+:WIDTH];
  wire [PART_W-1:0] part = c_vpn[PART_W-1:0];
  wire [FACTOR-1:0] c_part = {{FACTOR - 1{1'b0}}, 1'b1} << part;
  wire [2:0] op = ops[5:3];
  wire lookup = at[1] && op == tlb_pkg::LOOKUP;
  wire fill = at[1] && op == tlb_pkg::FILL;
  wire hit = match != '0;
  wire joins = tag_match != '0;  // its subblock is empty, for the page missed
  wire [ENTRIES-1:0] victim;
  replacement #(
      .ENTRIES(ENTRIES),
      .POLICY(POLICY),
      .FILL_SETS_USED(FILL_SETS_USED),
      .SEED(SEED)
  ) replacement (
      .clk(clk),
      .rst(rst),
      .valid(taken),
      .locked(locked),
      .touch(lookup && hit),
      .join_(fill && joins),
      .place(fill && !joins),
      .way(fill ? tag_match : match),
      .victim(victim),
      .used(used)
  );
  wire [ENTRIES-1:0] one = !fill ? match : joins ? tag_match : victim;
  wire [SLOT_W-1:0] slot;
  encode #(.WIDTH(ENTRIES)) encode_slot (.one(one), .index(slot));

  // The page in the entry, and all pages of what goes.
  logic [ENTRIES*FACTOR-1:0] page, goes;
  always_comb begin
    for (int i = 0; i < ENTRIES; i++) begin
      page[i*FACTOR+:FACTOR] = one[i] ? c_part : '0;
      goes[i*FACTOR+:FACTOR] = {FACTOR{
        (fill && !joins && victim[i]) || (op == tlb_pkg::DROP_SPACE && tag_match[i]) || op == tlb_pkg::DROP_ALL
      }};
    end
    if (op == tlb_pkg::DROP_PAGE) goes = page;
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      is_valid <= '0;
      is_modified <= '0;
    end else if (at[1]) begin
      is_valid <= (is_valid & ~goes) | (fill ? page : '0);
      is_modified <= (is_modified & ~goes) | ((fill || lookup) && store ? page : '0);
    end
    for (int i = 0; i < ENTRIES; i++) begin
      if (fill && !joins && victim[i]) begin
        asid[i] <= c_asid;
        tag[i] <= c_vpn[VPN_W-1:PART_W];
      end
    end
    if (fill) begin
      pfn[{slot, part}] <= c_pfn;
      attr[{slot, part}] <= c_attr;
    end
  end

  // --- the answer ---
  assign ans_size = '0;
  always_ff @(posedge clk) begin
    ans_valid <= at[1] && !rst;
    if (at[1]) begin
      ans_hit <= lookup && hit;
      ans_part <= lookup && !hit && joins;
      ans_evict <= fill && !joins && (taken & victim) != '0;
      ans_slot <= slot;
      ans_pfn <= pfn[{slot, part}];
      ans_attr <= attr[{slot, part}];
    end
  end

`ifdef FORMAL
  // At most one entry matches (T94-17).
  always @(posedge clk) if (!rst && lookup) assert ((match & (match - 1'b1)) == '0);
`endif
endmodule
