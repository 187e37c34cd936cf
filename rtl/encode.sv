// The number of the one bit that is set; 0 if none is. Of no rule: a part of others.
module encode #(
    parameter int WIDTH = 4,
    parameter int INDEX = $clog2(WIDTH)
) (
    input  wire  [WIDTH-1:0] one,
    output logic [INDEX-1:0] index
);
  always_comb begin
    index = '0;
    for (int i = 0; i < WIDTH; i++) if (one[i]) index = index | i[INDEX-1:0];
  end
endmodule
