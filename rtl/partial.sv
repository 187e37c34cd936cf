// A fully associative partial-subblock TLB: T94-6 (entry), T94-7 and T94-8 (proper placement), T94-9 (lookup), T94-13
// (fill), T94-14, T94-18, T94-19. A tag for each region of FACTOR pages, a valid and a modified bit for each page, one
// frame and one set of attributes. Valid bits take part in the match (T94-17).
module partial #(
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
  wire searching;
  tlb_port #(.WIDTH(WIDTH), .DEPTH(2)) port (
      .clk(clk),
      .rst(rst),
      .req_valid(req_valid),
      .req_ready(req_ready),
      .req_op(req_op),
      .req({req_store, req_asid, req_vpn, req_pfn, req_attr}),
      .hold(searching),
      .valid(at),
      .op(ops),
      .stage(stages)
  );

  // Tags are compared all at once, the rest is read from memory.
  (* mem2reg *) logic [ASID_W-1:0] asid[0:ENTRIES-1];
  (* mem2reg *) logic [TAG_W-1:0] tag[0:ENTRIES-1];
  logic [PFN_W-1:0] pfn[0:ENTRIES-1];
  logic [ATTR_W-1:0] attr[0:ENTRIES-1];
  logic [ENTRIES-1:0] enabled;  // the SB bit in its logical sense (AMB-1)
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
  wire aligned = part == c_pfn[PART_W-1:0];
  wire [2:0] op = ops[5:3];
  wire lookup = at[1] && op == tlb_pkg::LOOKUP;
  wire fills = at[1] && op == tlb_pkg::FILL;
  wire hit = match != '0;

  wire [PFN_W-1:0] read_pfn;
  wire [ATTR_W-1:0] read_attr;
  wire [ENTRIES-1:0] candidate;
  wire joins;
  join_search #(.ENTRIES(ENTRIES)) join_search (
      .clk(clk),
      .rst(rst),
      .fills(fills),
      .may_join(aligned ? tag_match & enabled : '0),
      .fits(read_attr == c_attr && read_pfn[PFN_W-1:PART_W] == c_pfn[PFN_W-1:PART_W]),
      .candidate(candidate),
      .joins(joins),
      .searching(searching)
  );
  wire fill = fills && !searching;

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
      .way(fills ? candidate : match),
      .victim(victim),
      .used(used)
  );
  wire [ENTRIES-1:0] one = !fills ? match : fill && !joins ? victim : candidate;
  wire [SLOT_W-1:0] slot;
  encode #(.WIDTH(ENTRIES)) encode_slot (.one(one), .index(slot));
  // What is read does not depend on what replacement chooses.
  wire [SLOT_W-1:0] read_slot;
  encode #(.WIDTH(ENTRIES)) encode_read (.one(fills ? candidate : match), .index(read_slot));
  assign read_pfn = pfn[read_slot];
  assign read_attr = attr[read_slot];

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
        enabled[i] <= aligned;
      end
    end
    if (fill && !joins) begin
      // AMB-14: the low bits of an aligned frame are those of its page.
      pfn[slot] <= aligned ? {c_pfn[PFN_W-1:PART_W], {PART_W{1'b0}}} : c_pfn;
      attr[slot] <= c_attr;
    end
  end

  // --- the answer ---
  wire combined = (match & enabled) != '0;
  assign ans_size = '0;
  always_ff @(posedge clk) begin
    ans_valid <= at[1] && !searching && !rst;
    if (at[1]) begin
      ans_hit <= lookup && hit;
      ans_part <= lookup && !hit && tag_match != '0;
      ans_evict <= fill && !joins && (taken & victim) != '0;
      ans_slot <= slot;
      ans_pfn <= {read_pfn[PFN_W-1:PART_W], combined ? part : read_pfn[PART_W-1:0]};
      ans_attr <= read_attr;
    end
  end

`ifdef FORMAL
  // At most one entry matches (T94-17).
  always @(posedge clk) if (!rst && lookup) assert ((match & (match - 1'b1)) == '0);
`endif
endmodule
