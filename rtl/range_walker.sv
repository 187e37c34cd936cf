// A walker of range tables: RMM15-7 (nodes), RMM15-8 (CR-RT, here `req_root`), RMM15-9 (the search). It has two
// comparators, and reads a node word by word until it knows where to go on. A request LOOKUP is a search; nothing else
// does anything. What it finds is what a range TLB is filled with.
//
// A node of 128 bytes, little endian: four ranges of 17 bytes (BASE 36 bits, LIMIT 36, OFFSET 56, attributes 8;
// BASE = LIMIT: none), from byte 68 on five children (addresses of 8 bytes, 0: none).
module range_walker #(
    parameter int ENTRIES = 1,
    parameter int ASID_W = 12,
    parameter int VPN_W = 36,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8,
    parameter int SIZE_W = 5,
    parameter int PARTS = 1,
    parameter int SLOT_W = 5
) (
`include "ports.svh"
    ,
    input  wire  [PFN_W+11:0] req_root,    // LOOKUP: address of the root; 0: no range
    // Memory: a read is accepted when both are 1; its answer comes later.
    output logic              mem_valid,
    input  wire               mem_ready,
    output wire  [PFN_W+11:0] mem_addr,
    input  wire               mem_answer,
    input  wire  [      63:0] mem_data,
    // The range, if `ans_hit`; OFFSET is in `ans_pfn`, the number of nodes in `ans_slot`.
    output logic [ VPN_W-1:0] ans_base,
    output logic [ VPN_W-1:0] ans_limit
);
  localparam [2:0] IDLE = 0, ASK = 1, READ = 2, COMPARE = 3, CHILD = 4, DONE = 5;
  logic [2:0] state;
  logic [VPN_W-1:0] vpn;
  logic [PFN_W+4:0] node;    // its address in units of 128 bytes
  logic [3:0] word;          // of the node, that is read next
  logic [191:0] window;      // the last three words, the last on top
  logic [2:0] range_;        // of the node, or the child that the search goes to
  logic to_child, found;
  logic [SLOT_W-1:0] nodes;
  assign req_ready = state == IDLE;
  assign valid = '0;
  assign modified = '0;
  assign used = '0;
  assign mem_addr = {node, word, 3'b000};

  // Range i begins at byte i of word 2 i.
  wire [135:0] field = window[{3'b000, range_[1:0], 3'b000}+:136];
  wire [VPN_W-1:0] base = field[0+:VPN_W];
  wire [VPN_W-1:0] limit = field[36+:VPN_W];
  wire below_base = vpn < base;
  wire below_limit = vpn < limit;
  wire none = field[35:0] == field[71:36];
  // A child begins in the middle of a word.
  wire [63:0] child = window[96+:64];
  wire unused = &{1'b0, field[127:72], child[63:PFN_W+12], child[6:0], req_root[6:0]};

  always_ff @(posedge clk) begin
    mem_valid <= 1'b0;
    case (state)
      IDLE: begin
        if (req_valid) begin
          vpn <= req_vpn;
          node <= req_root[PFN_W+11:7];
          word <= '0;
          range_ <= '0;
          to_child <= 1'b0;
          found <= 1'b0;
          nodes <= '0;
          state <= req_op == tlb_pkg::LOOKUP && req_root != '0 ? ASK : DONE;
          mem_valid <= req_op == tlb_pkg::LOOKUP && req_root != '0;
        end
      end
      ASK: begin
        if (mem_ready) state <= READ;
        else mem_valid <= 1'b1;
      end
      READ: begin
        if (mem_answer) begin
          window <= {mem_data, window[191:64]};
          word <= word + 1'b1;
          if (to_child && word == {1'b0, range_} + 4'd9) state <= CHILD;
          else if (!to_child && word == {range_, 1'b0} + 4'd2) state <= COMPARE;
          else begin
            state <= ASK;
            mem_valid <= 1'b1;
          end
        end
      end
      COMPARE: begin
        if (!none && !below_base && below_limit) begin
          found <= 1'b1;
          nodes <= nodes + 1'b1;
          state <= DONE;
        end else begin
          state <= ASK;
          mem_valid <= 1'b1;
          if (none || below_base) begin
            to_child <= 1'b1;
            word <= {1'b0, range_} + 4'd8;
          end else begin
            range_ <= range_ + 1'b1;
            to_child <= range_ == 3;
            if (range_ == 3) word <= 4'd12;
          end
        end
      end
      CHILD: begin
        nodes <= nodes + 1'b1;
        node <= child[PFN_W+11:7];
        word <= '0;
        range_ <= '0;
        to_child <= 1'b0;
        state <= child == '0 ? DONE : ASK;
        mem_valid <= child != '0;
      end
      default: state <= IDLE;
    endcase
    if (rst) state <= IDLE;
  end

  assign ans_part = 1'b0;
  assign ans_evict = 1'b0;
  assign ans_size = '0;
  always_ff @(posedge clk) begin
    ans_valid <= !rst && state == DONE;
    ans_hit <= found;
    ans_slot <= nodes;
    ans_base <= base;
    ans_limit <= limit;
    ans_pfn <= field[72+:PFN_W];
    ans_attr <= field[128+:ATTR_W];
  end
endmodule
