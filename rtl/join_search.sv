// Which entry a fill joins: T94-13 (the lowest that has the tag and fits), RMM15-42 for clusters. Those that it might
// join are looked at one by one, the lowest first: each is read as a lookup reads it, so that what is read needs one
// comparator and not one for each entry.
module join_search #(
    parameter int ENTRIES = 64
) (
    input  wire               clk,
    input  wire               rst,
    input  wire               fills,      // a fill is in the last stage
    input  wire [ENTRIES-1:0] may_join,   // in its first cycle there: the entries to look at
    input  wire               fits,       // what was read of `candidate` is what is filled
    output wire [ENTRIES-1:0] candidate,  // one bit, or none
    output wire               joins,      // the fill joins the candidate
    output wire               searching   // it stays for another cycle
);
  logic began;
  logic [ENTRIES-1:0] untried;
  first_set #(.WIDTH(ENTRIES)) find_candidate (.bits(untried), .first(candidate));
  assign joins = began && untried != '0 && fits;
  assign searching = fills && (!began || (untried != '0 && !joins));
  always_ff @(posedge clk) begin
    if (rst) began <= 1'b0;
    else if (fills) began <= searching;
    if (fills) untried <= began ? untried & ~candidate : may_join;
  end
endmodule
