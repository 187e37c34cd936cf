// A page walker for a radix tree of four levels (DS13-36), with caches of the levels above the leaves. A request
// LOOKUP is a walk. It begins at the deepest cached entry on the way, or at the root, reads an entry of each level
// down to the leaf, and caches those that lead on. Any change of a mapping drops what is cached of its address space,
// as INVLPG does.
//
// An entry in memory has 64 bits: bit 0 present, bit 7 a page here and not a table below (levels 1 and 2), from bit
// 12 on the frame, from bit 52 on the eight attribute bits.
module walker #(
    parameter int CACHE_1 = 2,  // entries that lead to a table of level 0; 0: no such cache
    parameter int CACHE_2 = 0,
    parameter int CACHE_3 = 0,
    parameter int ENTRIES = 1,
    parameter int ASID_W = 12,
    parameter int VPN_W = 36,
    parameter int PFN_W = 36,
    parameter int ATTR_W = 8,
    parameter int SIZE_W = 5,
    parameter int PARTS = 1,
    parameter int SLOT_W = 3
) (
`include "ports.svh"
    ,
    input  wire  [PFN_W+11:0] req_root,    // LOOKUP: address of the root
    // Memory: a read is accepted when both are 1; its answer comes later.
    output logic              mem_valid,
    input  wire               mem_ready,
    output wire  [PFN_W+11:0] mem_addr,
    input  wire               mem_answer,
    input  wire  [      63:0] mem_data
    // `ans_slot` is the number of reads.
);
  localparam [2:0] IDLE = 0, CACHED = 1, ASK = 2, READ = 3, CHANGE = 4, DONE = 5;
  logic [2:0] state, op;
  logic [1:0] level;
  logic [ASID_W-1:0] asid;
  logic [VPN_W-1:0] vpn;
  logic [PFN_W-1:0] frame;   // of the table that is read next
  logic [SLOT_W-1:0] reads;
  logic [63:0] entry;
  assign req_ready = state == IDLE;
  assign valid = '0;
  assign modified = '0;
  assign used = '0;

  // --- the entry that was read ---
  wire present = entry[0];
  wire leaf = level == 0 || entry[7];
  wire [PFN_W-1:0] entry_frame = entry[12+:PFN_W];
  wire leads_on = state == DONE && present && !leaf;
  wire [8:0] index = level == 3 ? vpn[27+:9] : level == 2 ? vpn[18+:9] : level == 1 ? vpn[9+:9] : vpn[0+:9];
  assign mem_addr = {frame, index, 3'b000};
  wire unused = &{1'b0, entry, req_root[11:0]};

  // --- caches ---
  wire [2:0] hit, touch;
  wire [3*PFN_W-1:0] found;
  assign touch[0] = state == CACHED && hit[0];
  assign touch[1] = state == CACHED && hit[1] && !hit[0];
  assign touch[2] = state == CACHED && hit[2] && hit[1:0] == '0;
  wire forget = state == CHANGE && op != tlb_pkg::FILL && op != tlb_pkg::DROP_ALL;
  wire forget_all = state == CHANGE && op == tlb_pkg::DROP_ALL;
  generate
    for (genvar i = 1; i <= 3; i++) begin : g_level
      localparam int N = i == 1 ? CACHE_1 : i == 2 ? CACHE_2 : CACHE_3;
      if (N > 1) begin : g_cache
        walk_cache #(
            .ENTRIES(N),
            .ASID_W(ASID_W),
            .TAG_W(VPN_W - 9 * i),
            .DATA_W(PFN_W)
        ) cache (
            .clk(clk),
            .rst(rst),
            .asid(asid),
            .tag(vpn[VPN_W-1:9*i]),
            .hit(hit[i-1]),
            .found(found[(i-1)*PFN_W+:PFN_W]),
            .touch(touch[i-1]),
            .fill(leads_on && level == i[1:0]),
            .data(entry_frame),
            .drop_space(forget),
            .drop_all(forget_all)
        );
      end else begin : g_none
        assign hit[i-1] = 1'b0;
        assign found[(i-1)*PFN_W+:PFN_W] = '0;
        wire unused_touch = &{1'b0, touch[i-1]};
      end
    end
  endgenerate

  // --- the walk ---
  always_ff @(posedge clk) begin
    mem_valid <= 1'b0;
    case (state)
      IDLE: begin
        if (req_valid) begin
          op <= req_op;
          asid <= req_asid;
          vpn <= req_vpn;
          frame <= req_root[12+:PFN_W];
          level <= 2'd3;
          reads <= '0;
          state <= req_op == tlb_pkg::LOOKUP ? CACHED : CHANGE;
        end
      end
      CACHED: begin
        state <= ASK;
        mem_valid <= 1'b1;
        if (hit[0]) begin
          level <= 2'd0;
          frame <= found[0+:PFN_W];
        end else if (hit[1]) begin
          level <= 2'd1;
          frame <= found[PFN_W+:PFN_W];
        end else if (hit[2]) begin
          level <= 2'd2;
          frame <= found[2*PFN_W+:PFN_W];
        end
      end
      ASK: begin
        if (mem_ready) state <= READ;
        else mem_valid <= 1'b1;
      end
      READ: begin
        if (mem_answer) begin
          entry <= mem_data;
          reads <= reads + 1'b1;
          state <= DONE;
        end
      end
      DONE: begin
        if (leads_on) begin
          frame <= entry_frame;
          level <= level - 1'b1;
          mem_valid <= 1'b1;
          state <= ASK;
        end else begin
          state <= IDLE;
        end
      end
      default: state <= IDLE;
    endcase
    if (rst) state <= IDLE;
  end

  // --- the answer ---
  wire [PFN_W-1:0] low = level == 2 ? {{PFN_W - 18{1'b0}}, 18'h3ffff} : level == 1 ? {{PFN_W - 9{1'b0}}, 9'h1ff} : '0;
  assign ans_part = 1'b0;
  assign ans_evict = 1'b0;
  always_ff @(posedge clk) begin
    ans_valid <= !rst && (state == CHANGE || (state == DONE && !leads_on));
    ans_hit <= state == DONE && present;
    ans_slot <= reads;
    ans_pfn <= (entry_frame & ~low) | (vpn[PFN_W-1:0] & low);
    ans_attr <= entry[52+:ATTR_W];
    ans_size <= level == 2 ? 5'd18 : level == 1 ? 5'd9 : 5'd0;
  end
endmodule
