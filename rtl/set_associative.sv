// A set-associative TLB of base pages: T94-15, the levels of DS13's Table 1 and RMM15's Table 5; T94-14 and AMB-6
// (replacement), T94-18 (invalidation). The set is the page number modulo the number of sets.
//
// Without DEEP the LATENCY is 3, for a first level. With DEEP it is 6, as in RMM15 8.4, for a large array:
// request | copy in the bank | set read in the bank | set of all banks | tags compared | way chosen.
module set_associative #(
    parameter int ENTRIES = 512,
    parameter int WAYS = 4,
    parameter int BANKS = 8,
    parameter int DEEP = 1,
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
  localparam int SETS = ENTRIES / WAYS;
  localparam int SET_W = $clog2(SETS);
  localparam int BANK_SETS = SETS / BANKS;
  localparam int INDEX_W = $clog2(BANK_SETS);
  localparam int BANK_ENTRIES = BANK_SETS * WAYS;
  localparam int KEY_W = VPN_W - SET_W;
  localparam int TAG_W = ASID_W + KEY_W;
  localparam int DATA_W = PFN_W + ATTR_W;
  localparam int WIDTH = 2 + ASID_W + VPN_W + DATA_W;
  localparam int DEPTH = DEEP != 0 ? 5 : 2;
  localparam int ROW = DEEP != 0 ? 3 : 1;  // the stage to which banks answer
  localparam int WAY_W = $clog2(WAYS);

  // DROP_SPACE goes through all sets. The request stays until the last of them is accepted.
  wire port_ready;
  logic [SET_W-1:0] sweep;
  wire sweeps = req_op == tlb_pkg::DROP_SPACE;
  wire last = !sweeps || &sweep;
  assign req_ready = port_ready && last;
  always_ff @(posedge clk) begin
    if (rst) sweep <= '0;
    else if (req_valid && port_ready && sweeps) sweep <= sweep + 1'b1;
  end

  wire [DEPTH-1:0] there;
  wire [3*DEPTH-1:0] ops;
  wire [WIDTH*DEPTH-1:0] stages;
  wire hold;
  tlb_port #(.WIDTH(WIDTH), .DEPTH(DEPTH)) port (
      .clk(clk),
      .rst(rst),
      .req_valid(req_valid),
      .req_ready(port_ready),
      .req_op(req_op),
      .req({last, req_store, req_asid, sweeps ? {req_vpn[VPN_W-1:SET_W], sweep} : req_vpn, req_pfn, req_attr}),
      .hold(hold),
      .valid(there),
      .op(ops),
      .stage(stages)
  );

  // --- stage 1: to the bank ---
  wire [DATA_W-1:0] s_data = stages[0+:DATA_W];
  wire [VPN_W-1:0] s_vpn = stages[DATA_W+:VPN_W];
  wire [ASID_W-1:0] s_asid = stages[DATA_W+VPN_W+:ASID_W];

  // --- what banks say, and what changes them ---
  logic touch, fill, drop;
  wire store, drop_all;
  wire [SET_W-1:0] c_set;
  logic [WAYS-1:0] match;
  wire [15:0] number;
  wire [BANKS-1:0] evicts, draws;
  wire [BANKS*WAYS-1:0] victims, rows_valid;
  wire [BANKS*WAYS*TAG_W-1:0] rows_tag;
  wire [BANKS*WAYS*DATA_W-1:0] rows_data;
  wire [SET_W-1:0] r_set = stages[(ROW-1)*WIDTH+DATA_W+:SET_W];
  logic [BANKS-1:0] s_bank, r_bank, c_bank;
  always_comb begin
    for (int i = 0; i < BANKS; i++) begin
      s_bank[i] = BANKS == 1 || (s_vpn[SET_W-1:0] >> INDEX_W) == i[SET_W-1:0];
      r_bank[i] = BANKS == 1 || (r_set >> INDEX_W) == i[SET_W-1:0];
      c_bank[i] = BANKS == 1 || (c_set >> INDEX_W) == i[SET_W-1:0];
    end
  end
  generate
    for (genvar b = 0; b < BANKS; b++) begin : g_bank
      set_bank #(
          .SETS(BANK_SETS),
          .WAYS(WAYS),
          .TAG_W(TAG_W),
          .DATA_W(DATA_W),
          .POLICY(POLICY),
          .FILL_SETS_USED(FILL_SETS_USED),
          .DEEP(DEEP)
      ) bank (
          .clk(clk),
          .rst(rst),
          .select(there[0] && s_bank[b]),
          .index(s_vpn[INDEX_W-1:0]),
          .tag({s_asid, s_vpn[VPN_W-1:SET_W]}),
          .data(s_data),
          .row_valid(rows_valid[b*WAYS+:WAYS]),
          .row_tag(rows_tag[b*WAYS*TAG_W+:WAYS*TAG_W]),
          .row_data(rows_data[b*WAYS*DATA_W+:WAYS*DATA_W]),
          .touch(touch && c_bank[b]),
          .fill(fill && c_bank[b]),
          .store(store),
          .drop(drop && c_bank[b]),
          .drop_all(drop_all),
          .at(c_set[INDEX_W-1:0]),
          .way(match),
          .number(number),
          .victim(victims[b*WAYS+:WAYS]),
          .evicts(evicts[b]),
          .draws(draws[b]),
          .locked(locked[b*BANK_ENTRIES+:BANK_ENTRIES]),
          .is_valid(valid[b*BANK_ENTRIES+:BANK_ENTRIES]),
          .is_modified(modified[b*BANK_ENTRIES+:BANK_ENTRIES]),
          .used(used[b*BANK_ENTRIES+:BANK_ENTRIES])
      );
    end
  endgenerate

  // --- the set of the bank that was asked, and its tags ---
  logic [WAYS-1:0] row_valid;
  logic [WAYS*TAG_W-1:0] row_tag;
  logic [WAYS*DATA_W-1:0] row_data, c_data;
  always_comb begin
    row_valid = '0;
    row_tag = '0;
    row_data = '0;
    for (int i = 0; i < BANKS; i++) begin
      if (r_bank[i]) begin
        row_valid = row_valid | rows_valid[i*WAYS+:WAYS];
        row_tag = row_tag | rows_tag[i*WAYS*TAG_W+:WAYS*TAG_W];
        row_data = row_data | rows_data[i*WAYS*DATA_W+:WAYS*DATA_W];
      end
    end
  end
  wire [WAYS-1:0] m_valid;
  wire [WAYS*TAG_W-1:0] m_tag;
  wire [WAYS*DATA_W-1:0] m_data;
  generate
    if (DEEP != 0) begin : g_deep
      logic [WAYS*(1+TAG_W+DATA_W)-1:0] row;
      always_ff @(posedge clk) if (there[ROW-1]) row <= {row_valid, row_tag, row_data};
      assign {m_valid, m_tag, m_data} = row;
    end else begin : g_flat
      assign {m_valid, m_tag, m_data} = {row_valid, row_tag, row_data};
    end
  endgenerate
  wire [KEY_W-1:0] m_key = stages[(DEPTH-2)*WIDTH+DATA_W+SET_W+:KEY_W];
  wire [ASID_W-1:0] m_asid = stages[(DEPTH-2)*WIDTH+DATA_W+VPN_W+:ASID_W];
  wire m_space = ops[3*(DEPTH-2)+:3] == tlb_pkg::DROP_SPACE;
  logic [WAYS-1:0] equal;
  always_comb begin
    for (int w = 0; w < WAYS; w++)
      equal[w] = m_valid[w] && m_tag[w*TAG_W+KEY_W+:ASID_W] == m_asid &&
          (m_tag[w*TAG_W+:KEY_W] == m_key || m_space);
  end
  always_ff @(posedge clk) begin
    if (there[DEPTH-2]) begin
      match <= equal;
      c_data <= m_data;
    end
  end

  // --- the last stage: their effect ---
  wire c_last = stages[(DEPTH-1)*WIDTH+WIDTH-1];
  assign store = stages[(DEPTH-1)*WIDTH+WIDTH-2];
  assign c_set = stages[(DEPTH-1)*WIDTH+DATA_W+:SET_W];
  wire [2:0] op = ops[3*(DEPTH-1)+:3];
  wire lookup = there[DEPTH-1] && op == tlb_pkg::LOOKUP;
  wire fills = there[DEPTH-1] && op == tlb_pkg::FILL;
  wire hit = match != '0;
  logic began;  // DEEP: the bank chooses its victim a cycle later
  assign hold = DEEP != 0 && fills && !began;
  always_ff @(posedge clk) began <= hold && !rst;
  assign touch = lookup && hit;
  assign fill = fills && !began;
  assign drop = there[DEPTH-1] && (op == tlb_pkg::DROP_PAGE || op == tlb_pkg::DROP_SPACE);
  assign drop_all = there[DEPTH-1] && op == tlb_pkg::DROP_ALL;
  generate
    if (POLICY == tlb_pkg::RANDOM) begin : g_random
      lfsr #(.SEED(SEED)) lfsr (.clk(clk), .rst(rst), .draw(draws != '0), .number(number));
    end else begin : g_fixed
      assign number = '0;
      wire unused = &{1'b0, draws};
    end
  endgenerate

  // --- the answer ---
  logic [WAYS-1:0] victim;
  logic [DATA_W-1:0] chosen;
  always_comb begin
    victim = '0;
    chosen = '0;
    for (int i = 0; i < BANKS; i++) if (c_bank[i]) victim = victim | victims[i*WAYS+:WAYS];
    for (int w = 0; w < WAYS; w++) if (match[w]) chosen = chosen | c_data[w*DATA_W+:DATA_W];
  end
  wire [WAY_W-1:0] way;
  encode #(.WIDTH(WAYS)) encode_way (.one(fills ? victim : match), .index(way));
  localparam [SLOT_W-1:0] STEP = WAYS[SLOT_W-1:0];
  assign ans_part = 1'b0;
  assign ans_size = '0;
  always_ff @(posedge clk) begin
    ans_valid <= there[DEPTH-1] && !hold && c_last && !rst;
    if (there[DEPTH-1]) begin
      ans_hit <= lookup && hit;
      ans_evict <= fills && (evicts & c_bank) != '0;
      ans_slot <= {{SLOT_W - SET_W{1'b0}}, c_set} * STEP + {{SLOT_W - WAY_W{1'b0}}, way};
      {ans_pfn, ans_attr} <= chosen;
    end
  end

`ifdef FORMAL
  // At most one entry matches (T94-17).
  always @(posedge clk) if (!rst && lookup) assert ((match & (match - 1'b1)) == '0);
`endif
endmodule
