// Replacement in a fully associative array: one set, with its state. The rules are those of policy.sv (T94-14, AMB-3,
// AMB-5, AMB-6, RMM15-11).
module replacement #(
    parameter int ENTRIES = 64,
    parameter int POLICY = tlb_pkg::USED_BIT,
    parameter int FILL_SETS_USED = 1,
    parameter int SEED = 'hace1
) (
    input  wire                clk,
    input  wire                rst,
    input  wire  [ENTRIES-1:0] valid,   // once what has to go is gone
    input  wire  [ENTRIES-1:0] locked,
    input  wire                touch,
    input  wire                join_,
    input  wire                place,
    input  wire  [ENTRIES-1:0] way,
    output wire  [ENTRIES-1:0] victim,
    output logic [ENTRIES-1:0] used     // used bits; of other policies than USED_BIT none
);
  localparam int INDEX = $clog2(ENTRIES);
  localparam bit LIST = POLICY == tlb_pkg::LRU || POLICY == tlb_pkg::FIFO;
  localparam int STATE = LIST ? ENTRIES * INDEX : ENTRIES;
  logic [STATE-1:0] state, next, first;
  wire draws;
  wire [15:0] number;
  policy #(
      .WAYS(ENTRIES),
      .POLICY(POLICY),
      .FILL_SETS_USED(FILL_SETS_USED)
  ) policy (
      .state(state),
      .valid(valid),
      .locked(locked),
      .number(number),
      .touch(touch),
      .join_(join_),
      .place(place),
      .way(way),
      .victim(victim),
      .draws(draws),
      .next(next)
  );
  generate
    if (POLICY == tlb_pkg::RANDOM) begin : g_random
      lfsr #(.SEED(SEED)) lfsr (.clk(clk), .rst(rst), .draw(draws), .number(number));
    end else begin : g_fixed
      assign number = '0;
      wire unused = &{1'b0, draws};
    end
  endgenerate
  always_comb begin
    first = '0;
    if (LIST) for (int i = 0; i < ENTRIES; i++) first[i*INDEX+:INDEX] = i[INDEX-1:0];
  end
  always_ff @(posedge clk) begin
    if (rst) state <= first;
    else if (touch || join_ || place) state <= next;
  end
  assign used = POLICY == tlb_pkg::USED_BIT ? state[ENTRIES-1:0] : '0;

`ifdef FORMAL
  // For a new entry one is chosen, a vacant one if there is one, and none that is locked unless all are.
  always @(posedge clk) begin
    if (!rst && place && locked != '1) begin
      assert (victim != '0 && (victim & (victim - 1'b1)) == '0 && (victim & locked) == '0);
      if ((valid | locked) != '1) assert ((victim & valid) == '0);
    end
  end
`endif
endmodule
