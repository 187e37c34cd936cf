// What must hold for any module with the port contract (README.md), for any sequence of requests that keeps to it. The
// module is `DUT`, with small parameters; formal.sh proves it for all sequences of a number of cycles.
//
// One page is watched, any. What the page table says of it is `truth`; it changes only when the module is told so, and
// all that the module is filled with agrees with it. Then
//   * a lookup is answered LATENCY cycles after it was accepted;
//   * a hit on the watched page is what the page table says, and something filled it since it was last dropped;
//   * a fill never evicts an entry that is locked, unless all of its set are;
//   * every other request ends, in at most BOUND cycles.
// What goes on inside, that two entries never match, each module says itself.
`ifndef LATENCY
`define LATENCY 3
`endif
`ifndef BOUND
`define BOUND 12
`endif
module formal #(
    parameter int ENTRIES = 4,
    parameter int WAYS = ENTRIES,
    parameter int PARTS = 1,
    parameter int ASID_W = 1,
    parameter int VPN_W = 4,
    parameter int PFN_W = 4,
    parameter int ATTR_W = 1,
    parameter int SIZE_W = 2,
    parameter int SLOT_W = 2
) (
    input wire clk
);
  reg rst = 1'b1;
  always @(posedge clk) rst <= 1'b0;
  (* anyseq *) wire req_valid;
  (* anyseq *) wire [2:0] req_op;
  (* anyseq *) wire req_fetch;
  (* anyseq *) wire req_store;
  (* anyseq *) wire [ASID_W-1:0] req_asid;
  (* anyseq *) wire [VPN_W-1:0] req_vpn;
  (* anyseq *) wire [VPN_W-1:0] req_limit;
  (* anyseq *) wire [PFN_W-1:0] req_pfn;
  (* anyseq *) wire [ATTR_W-1:0] req_attr;
  (* anyseq *) wire [SIZE_W-1:0] req_size;
  (* anyconst *) wire [ENTRIES-1:0] locked;
  wire req_ready, ans_valid, ans_hit, ans_part, ans_evict;
  wire [SLOT_W-1:0] ans_slot;
  wire [PFN_W-1:0] ans_pfn;
  wire [ATTR_W-1:0] ans_attr;
  wire [SIZE_W-1:0] ans_size;
  wire [ENTRIES*PARTS-1:0] valid, modified;
  wire [ENTRIES-1:0] used;
`ifdef HAS_LINE
  localparam int PTE_W = 1 + PFN_W + ATTR_W;
  (* anyseq *) wire [PARTS*PTE_W-1:0] req_line;
`endif
  `DUT #(`PARAMETERS) dut (
      .clk(clk),
      .rst(rst),
      .req_valid(req_valid),
      .req_ready(req_ready),
      .req_op(req_op),
      .req_fetch(req_fetch),
      .req_store(req_store),
      .req_asid(req_asid),
      .req_vpn(req_vpn),
      .req_limit(req_limit),
      .req_pfn(req_pfn),
      .req_attr(req_attr),
      .req_size(req_size),
      .locked(locked),
`ifdef HAS_LINE
      .req_line(req_line),
`endif
      .ans_valid(ans_valid),
      .ans_hit(ans_hit),
      .ans_part(ans_part),
      .ans_evict(ans_evict),
      .ans_slot(ans_slot),
      .ans_pfn(ans_pfn),
      .ans_attr(ans_attr),
      .ans_size(ans_size),
      .valid(valid),
      .modified(modified),
      .used(used)
  );
  wire accept = req_valid && req_ready && !rst;
  wire lookup = accept && req_op == tlb_pkg::LOOKUP;
  wire fill = accept && req_op == tlb_pkg::FILL;

  // --- requests keep to the contract ---
  // One that is not accepted stays as it is.
  reg waiting = 1'b0;
  reg [2:0] w_op;
  reg [ASID_W-1:0] w_asid;
  reg [VPN_W-1:0] w_vpn;
  always @(posedge clk) begin
    waiting <= req_valid && !req_ready && !rst;
    w_op <= req_op;
    w_asid <= req_asid;
    w_vpn <= req_vpn;
    assume (req_op <= tlb_pkg::DEMOTE);
    if (waiting) assume (req_valid && req_op == w_op && req_asid == w_asid && req_vpn == w_vpn);
  end
  // A fill is for the page of the lookup before it, which missed.
  reg [`LATENCY:1] under_way = '0, watched = '0;
  reg missed = 1'b0;
  reg [ASID_W-1:0] l_asid;
  reg [VPN_W-1:0] l_vpn;
  wire answered = under_way[`LATENCY];
  always @(posedge clk) begin
    under_way <= rst ? '0 : {under_way[`LATENCY-1:1], lookup};
    if (lookup) begin
      l_asid <= req_asid;
      l_vpn <= req_vpn;
    end
    if (rst || accept) missed <= 1'b0;
    else if (answered) missed <= !ans_hit && under_way[`LATENCY-1:1] == '0;
`ifdef IS_RANGE
    if (fill) assume (missed && req_asid == l_asid && req_vpn <= l_vpn && l_vpn < req_limit);
`elsif IS_SEGMENT
    if (fill) assume (req_vpn <= req_limit);
`else
    if (fill) assume (missed && req_asid == l_asid && req_vpn == l_vpn);
`endif
  end

  // --- the watched page ---
  (* anyconst *) wire [ASID_W-1:0] asid;
  (* anyconst *) wire [VPN_W-1:0] vpn;
  (* anyseq *) wire [PFN_W-1:0] new_pfn;
  (* anyseq *) wire [ATTR_W-1:0] new_attr;
  reg [PFN_W-1:0] truth_pfn;
  reg [ATTR_W-1:0] truth_attr;
  reg loaded = 1'b0;
  wire mine = req_asid == asid;
`ifdef IS_SEGMENT
  wire dropped = accept && req_op == tlb_pkg::DROP_ALL;
`else
  wire dropped = accept && ((req_op == tlb_pkg::DROP_PAGE && mine && req_vpn == vpn) ||
      (req_op == tlb_pkg::DROP_SPACE && mine) || req_op == tlb_pkg::DROP_ALL);
`endif
  wire [PFN_W-1:0] low = ({{PFN_W - 1{1'b0}}, 1'b1} << req_size) - 1'b1;
`ifdef IS_RANGE
  wire covers = mine && req_vpn <= vpn && vpn < req_limit;
  wire [PFN_W-1:0] says = vpn + req_pfn;
`elsif IS_SEGMENT
  wire covers = req_vpn <= vpn && vpn < req_limit;
  wire [PFN_W-1:0] says = vpn + req_pfn;
`elsif HAS_SIZES
  wire covers = mine && ((req_vpn ^ vpn) & ~low) == '0;
  wire [PFN_W-1:0] says = (req_pfn & ~low) | (vpn & low);
`else
  wire covers = mine && req_vpn == vpn;
  wire [PFN_W-1:0] says = req_pfn;
`endif
  reg brings = 1'b0;  // a fill brings the watched page
  always @* begin
    brings = covers;
`ifdef HAS_LINE
    for (int i = 0; i < PARTS; i++)
      if (mine && (req_vpn ^ vpn) < PARTS && vpn % PARTS == i) brings = req_line[i*PTE_W+PTE_W-1];
`endif
  end
  always @(posedge clk) begin
    if (rst || dropped) begin
      truth_pfn <= new_pfn;
      truth_attr <= new_attr;
      loaded <= 1'b0;
    end else if (fill && brings) begin
      loaded <= 1'b1;
    end
`ifdef IS_SEGMENT
    if (fill && !covers) loaded <= 1'b0;
`endif
    if (fill && covers) assume (says == truth_pfn && req_attr == truth_attr);
`ifdef HAS_LINE
    for (int i = 0; i < PARTS; i++) begin
      if (fill && mine && (req_vpn ^ vpn) < PARTS && vpn % PARTS == i && req_line[i*PTE_W+PTE_W-1])
        assume (req_line[i*PTE_W+:PFN_W+ATTR_W] == {truth_pfn, truth_attr});
    end
    // The line has the page that is filled.
    for (int i = 0; i < PARTS; i++) begin
      if (fill && req_vpn % PARTS == i) assume (req_line[i*PTE_W+:PTE_W] == {1'b1, req_pfn, req_attr});
    end
`endif
    watched <= rst ? '0 : {watched[`LATENCY-1:1], lookup && mine && req_vpn == vpn};
    if (!rst && answered) assert (ans_valid);
    if (!rst && answered && watched[`LATENCY] && ans_hit)
      assert (loaded && ans_pfn == truth_pfn && ans_attr == truth_attr);
  end

  // --- other requests ---
  reg exclusive = 1'b0, filling = 1'b0;
  reg [4:0] cycles;
  always @(posedge clk) begin
    if (rst || ans_valid) exclusive <= 1'b0;
    if (accept && !lookup) begin
      exclusive <= 1'b1;
      filling <= fill;
      cycles <= '0;
    end else begin
      cycles <= cycles + 1'b1;
    end
    if (!rst && exclusive) assert (cycles < `BOUND);
    if (!rst && exclusive && ans_valid && filling && ans_evict)
      assert (!locked[ans_slot] || locked[ans_slot/WAYS*WAYS+:WAYS] == '1);
  end
endmodule
