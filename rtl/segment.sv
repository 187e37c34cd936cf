// The registers of a direct segment, beside the lookup of a first-level TLB: DS13-1 (BASE, LIMIT, OFFSET), DS13-2
// (BASE <= page < LIMIT gives the page plus OFFSET, which wraps), DS13-4 (BASE = LIMIT: off), DS13-5 (fetches are not
// served), DS13-6. FILL loads the registers (DS13-17), DROP_ALL turns the segment off; nothing else changes them.
//
// LATENCY 3: stage 1 compares, stage 2 adds, the answer is a register.
module segment #(
    parameter int ENTRIES = 1,
    parameter int ASID_W = 12,
    parameter int VPN_W = 36,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8,
    parameter int SIZE_W = 4,
    parameter int PARTS = 1,
    parameter int SLOT_W = 1
) (
`include "ports.svh"
);
  localparam int WIDTH = 1 + VPN_W + VPN_W + PFN_W + ATTR_W;
  wire [1:0] at;
  wire [5:0] ops;
  wire [2*WIDTH-1:0] stages;
  tlb_port #(.WIDTH(WIDTH), .DEPTH(2)) port (
      .clk(clk),
      .rst(rst),
      .req_valid(req_valid),
      .req_ready(req_ready),
      .req_op(req_op),
      .req({req_fetch, req_limit, req_vpn, req_pfn, req_attr}),
      .hold(1'b0),
      .valid(at),
      .op(ops),
      .stage(stages)
  );
  logic [VPN_W-1:0] base, limit;
  logic [PFN_W-1:0] offset;
  logic [ATTR_W-1:0] attr;
  assign valid = base < limit;
  assign modified = '0;
  assign used = '0;

  wire [VPN_W-1:0] m_vpn = stages[ATTR_W+PFN_W+:VPN_W];
  wire m_fetch = stages[WIDTH-1];
  logic covers;
  always_ff @(posedge clk) if (at[0]) covers <= base <= m_vpn && m_vpn < limit && !m_fetch;

  wire fetch;
  wire [VPN_W-1:0] c_limit, c_vpn;
  wire [PFN_W-1:0] c_offset;
  wire [ATTR_W-1:0] c_attr;
  assign {fetch, c_limit, c_vpn, c_offset, c_attr} = stages[WIDTH+:WIDTH];
  wire unused = &{1'b0, fetch};
  wire [2:0] op = ops[5:3];
  always_ff @(posedge clk) begin
    if (rst || (at[1] && op == tlb_pkg::DROP_ALL)) {base, limit} <= '0;
    else if (at[1] && op == tlb_pkg::FILL) {base, limit, offset, attr} <= {c_vpn, c_limit, c_offset, c_attr};
  end

  assign ans_part = 1'b0;
  assign ans_evict = 1'b0;
  assign ans_slot = '0;
  assign ans_size = '0;
  always_ff @(posedge clk) begin
    ans_valid <= at[1] && !rst;
    if (at[1]) begin
      ans_hit <= op == tlb_pkg::LOOKUP && covers;
      ans_pfn <= c_vpn[PFN_W-1:0] + offset;
      ans_attr <= attr;
    end
  end
endmodule
