// A fully associative clustered TLB: RMM15-42, AMB-91. An entry holds those of eight aligned pages that lie, in any
// order, in one group of eight aligned frames: a tag, the group of frames, attributes, and for each page a valid bit
// and its place in the group. A fill brings the line of the page table with all eight (`req_line`).
module clustered #(
    parameter int ENTRIES = 512,
    parameter int FACTOR = 8,
    parameter int ASID_W = 12,
    parameter int VPN_W = 36,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8,
    parameter int SIZE_W = 4,
    parameter int POLICY = tlb_pkg::LRU,
    parameter int FILL_SETS_USED = 1,
    parameter int SEED = 'hace1,
    parameter int PARTS = FACTOR,
    parameter int SLOT_W = $clog2(ENTRIES),
    parameter int PTE_W = 1 + PFN_W + ATTR_W
) (
`include "ports.svh"
    ,
    // FILL: page table entries of the aligned pages, the first in the lowest bits: valid, frame, attributes.
    input wire [FACTOR*PTE_W-1:0] req_line
);
  // LATENCY 3: stage 1 compares, stage 2 reads, the answer is a register.
  localparam int PART_W = $clog2(FACTOR);
  localparam int GROUP_W = PFN_W - PART_W;
  localparam int WIDTH = ASID_W + VPN_W + GROUP_W + ATTR_W;
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
      .req({req_asid, req_vpn, req_pfn[PFN_W-1:PART_W], req_attr}),
      .hold(searching),
      .valid(at),
      .op(ops),
      .stage(stages)
  );

  // Tags are compared all at once, the rest is read from memory.
  (* mem2reg *) logic [ASID_W-1:0] asid[0:ENTRIES-1];
  (* mem2reg *) logic [TAG_W-1:0] tag[0:ENTRIES-1];
  logic [GROUP_W-1:0] group[0:ENTRIES-1];
  logic [ATTR_W-1:0] attr[0:ENTRIES-1];
  logic [FACTOR*PART_W-1:0] places[0:ENTRIES-1];
  logic [ENTRIES*FACTOR-1:0] is_valid;
  assign valid = is_valid;
  assign modified = '0;
  logic [ENTRIES-1:0] taken;  // some page of the entry is valid
  always_comb begin
    for (int i = 0; i < ENTRIES; i++) taken[i] = is_valid[i*FACTOR+:FACTOR] != '0;
  end

  // --- stage 1: which entries have the tag, which of them the page ---
  wire [ASID_W-1:0] m_asid = stages[ATTR_W+GROUP_W+VPN_W+:ASID_W];
  wire [VPN_W-1:0] m_vpn = stages[ATTR_W+GROUP_W+:VPN_W];
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
  wire [ASID_W-1:0] c_asid;
  wire [VPN_W-1:0] c_vpn;
  wire [GROUP_W-1:0] c_group;
  wire [ATTR_W-1:0] c_attr;
  assign {c_asid, c_vpn, c_group, c_attr} = stages[WIDTH+:WIDTH];
  wire [PART_W-1:0] part = c_vpn[PART_W-1:0];
  wire [FACTOR-1:0] c_part = {{FACTOR - 1{1'b0}}, 1'b1} << part;
  // The pages that share an entry with the one that is filled.
  logic [FACTOR*PTE_W-1:0] line;
  always_ff @(posedge clk) if (req_valid && req_ready && req_op == tlb_pkg::FILL) line <= req_line;
  logic [FACTOR-1:0] cluster;
  logic [FACTOR*PART_W-1:0] cluster_places;
  logic [PTE_W-1:0] pte;
  always_comb begin
    for (int j = 0; j < FACTOR; j++) begin
      pte = line[j*PTE_W+:PTE_W];
      cluster[j] = pte[PTE_W-1] && pte[PTE_W-2-:GROUP_W] == c_group && pte[ATTR_W-1:0] == c_attr;
      cluster_places[j*PART_W+:PART_W] = pte[ATTR_W+:PART_W];
    end
  end
  wire [2:0] op = ops[5:3];
  wire lookup = at[1] && op == tlb_pkg::LOOKUP;
  wire fills = at[1] && op == tlb_pkg::FILL;
  wire hit = match != '0;

  wire [GROUP_W-1:0] read_group;
  wire [FACTOR*PART_W-1:0] read_places;
  wire [ATTR_W-1:0] read_attr;
  wire [ENTRIES-1:0] candidate;
  wire joins;
  join_search #(.ENTRIES(ENTRIES)) join_search (
      .clk(clk),
      .rst(rst),
      .fills(fills),
      .may_join(tag_match),
      .fits(read_attr == c_attr && read_group == c_group),
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
  assign read_group = group[read_slot];
  assign read_places = places[read_slot];
  assign read_attr = attr[read_slot];

  // The page in the entry, the pages of a fill, and all pages of what goes.
  logic [ENTRIES*FACTOR-1:0] page, comes, goes;
  always_comb begin
    for (int i = 0; i < ENTRIES; i++) begin
      page[i*FACTOR+:FACTOR] = one[i] ? c_part : '0;
      comes[i*FACTOR+:FACTOR] = fill && one[i] ? cluster : '0;
      goes[i*FACTOR+:FACTOR] = {FACTOR{
        (fill && !joins && victim[i]) || (op == tlb_pkg::DROP_SPACE && tag_match[i]) || op == tlb_pkg::DROP_ALL
      }};
    end
    if (op == tlb_pkg::DROP_PAGE) goes = page;
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      is_valid <= '0;
    end else if (at[1]) begin
      is_valid <= (is_valid & ~goes) | comes;
    end
    for (int i = 0; i < ENTRIES; i++) begin
      if (fill && !joins && victim[i]) begin
        asid[i] <= c_asid;
        tag[i] <= c_vpn[VPN_W-1:PART_W];
      end
    end
    if (fill) begin
      group[slot] <= c_group;
      attr[slot] <= c_attr;
      places[slot] <= cluster_places;
    end
  end

  // --- the answer ---
  logic [PART_W-1:0] place;
  always_comb begin
    place = '0;
    for (int j = 0; j < FACTOR; j++) if (part == j[PART_W-1:0]) place = place | read_places[j*PART_W+:PART_W];
  end
  assign ans_size = '0;
  always_ff @(posedge clk) begin
    ans_valid <= at[1] && !searching && !rst;
    if (at[1]) begin
      ans_hit <= lookup && hit;
      ans_part <= lookup && !hit && tag_match != '0;
      ans_evict <= fill && !joins && (taken & victim) != '0;
      ans_slot <= slot;
      ans_pfn <= {read_group, place};
      ans_attr <= read_attr;
    end
  end

`ifdef FORMAL
  // At most one entry matches (T94-17).
  always @(posedge clk) if (!rst && lookup) assert ((match & (match - 1'b1)) == '0);
`endif
endmodule
