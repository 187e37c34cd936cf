// A cache of one upper level of the page table, for the walker (DS13-36): an entry leads to the table below. Fully
// associative, the entry used longest ago goes.
module walk_cache #(
    parameter int ENTRIES = 2,
    parameter int ASID_W = 12,
    parameter int TAG_W = 27,
    parameter int DATA_W = 36
) (
    input  wire               clk,
    input  wire               rst,
    input  wire  [ASID_W-1:0] asid,
    input  wire  [ TAG_W-1:0] tag,
    output wire               hit,
    output logic [DATA_W-1:0] found,
    input  wire               touch,      // what was hit is used
    input  wire               fill,       // `data` comes for this tag
    input  wire  [DATA_W-1:0] data,
    input  wire               drop_space,
    input  wire               drop_all
);
  (* mem2reg *) logic [ASID_W-1:0] e_asid[0:ENTRIES-1];
  (* mem2reg *) logic [TAG_W-1:0] e_tag[0:ENTRIES-1];
  (* mem2reg *) logic [DATA_W-1:0] e_data[0:ENTRIES-1];
  logic [ENTRIES-1:0] valid, mine, match;
  wire [ENTRIES-1:0] victim, used;
  replacement #(.ENTRIES(ENTRIES), .POLICY(tlb_pkg::LRU)) replacement (
      .clk(clk),
      .rst(rst),
      .valid(valid),
      .locked('0),
      .touch(touch),
      .join_(1'b0),
      .place(fill),
      .way(match),
      .victim(victim),
      .used(used)
  );
  wire unused = &{1'b0, used};
  always_comb begin
    found = '0;
    for (int i = 0; i < ENTRIES; i++) begin
      mine[i] = valid[i] && e_asid[i] == asid;
      match[i] = mine[i] && e_tag[i] == tag;
      if (match[i]) found = found | e_data[i];
    end
  end
  assign hit = match != '0;
  always_ff @(posedge clk) begin
    if (rst || drop_all) valid <= '0;
    else if (drop_space) valid <= valid & ~mine;
    else if (fill) valid <= valid | victim;
    for (int i = 0; i < ENTRIES; i++) begin
      if (fill && victim[i]) begin
        e_asid[i] <= asid;
        e_tag[i] <= tag;
        e_data[i] <= data;
      end
    end
  end
endmodule
