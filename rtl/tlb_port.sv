// The pipeline of requests, which all modules share; no paper has a rule for it, README.md says what it keeps to. A
// lookup may follow a lookup at each cycle. Any other request is accepted when nothing is under way, and nothing is
// accepted until it has ended: state that several stages look at does not change between them, and requests mean the
// same as one after the other.
//
// Stage 1 holds what was accepted, stage DEPTH what ends in this cycle unless `hold` keeps it there. A stage without a
// request keeps its bits still.
module tlb_port #(
    parameter int WIDTH = 1,
    parameter int DEPTH = 2
) (
    input  wire                    clk,
    input  wire                    rst,
    input  wire                    req_valid,
    output wire                    req_ready,
    input  wire  [            2:0] req_op,
    input  wire  [      WIDTH-1:0] req,
    input  wire                    hold,
    output logic [      DEPTH-1:0] valid,  // bit i - 1: stage i has a request
    output logic [    3*DEPTH-1:0] op,     // stage by stage
    output logic [WIDTH*DEPTH-1:0] stage
);
  logic exclusive;  // a request that is no lookup is under way
  wire is_lookup = req_op == tlb_pkg::LOOKUP;
  assign req_ready = !exclusive && (is_lookup || valid == '0);
  wire accept = req_valid && req_ready;
  always_ff @(posedge clk) begin
    if (rst) begin
      valid <= '0;
      exclusive <= 1'b0;
    end else begin
      for (int i = 1; i < DEPTH; i++) valid[i] <= valid[i-1] || (hold && i == DEPTH - 1);
      valid[0] <= accept;
      if (accept && !is_lookup) exclusive <= 1'b1;
      else if (valid[DEPTH-1] && !hold) exclusive <= 1'b0;
    end
    if (accept) begin
      op[2:0] <= req_op;
      stage[WIDTH-1:0] <= req;
    end
    for (int i = 1; i < DEPTH; i++) begin
      if (valid[i-1]) begin
        op[3*i+:3] <= op[3*(i-1)+:3];
        stage[WIDTH*i+:WIDTH] <= stage[WIDTH*(i-1)+:WIDTH];
      end
    end
  end
endmodule
