// Some sets of a set-associative array (set_associative.sv): entries of T94-3, T94-15. With DEEP a request is copied
// into the bank that it is for, what is read is copied on its way out, and so is what changes a set: no register drives
// more than one bank. Without DEEP the copies are wires.
module set_bank #(
    parameter int SETS = 16,
    parameter int WAYS = 4,
    parameter int TAG_W = 41,
    parameter int DATA_W = 44,
    parameter int POLICY = tlb_pkg::LRU,
    parameter int FILL_SETS_USED = 1,
    parameter int DEEP = 1,
    parameter int INDEX_W = $clog2(SETS),
    parameter int WAY_W = $clog2(WAYS)
) (
    input  wire                    clk,
    input  wire                    rst,
    // Reading a set, which is there two cycles later (DEEP) or at once.
    input  wire                    select,
    input  wire  [    INDEX_W-1:0] index,
    input  wire  [      TAG_W-1:0] tag,         // of a fill
    input  wire  [     DATA_W-1:0] data,        // of a fill
    output wire  [       WAYS-1:0] row_valid,
    output wire  [ WAYS*TAG_W-1:0] row_tag,
    output wire  [WAYS*DATA_W-1:0] row_data,
    // Changing a set, a cycle later (DEEP) or at once.
    input  wire                    touch,       // an access hit `way`
    input  wire                    fill,        // the victim takes tag and data of the request
    input  wire                    store,       // and what was hit or filled is modified
    input  wire                    drop,        // `way` goes, perhaps several
    input  wire                    drop_all,    // all goes
    input  wire  [    INDEX_W-1:0] at,
    input  wire  [       WAYS-1:0] way,
    input  wire  [           15:0] number,      // for RANDOM
    output wire  [       WAYS-1:0] victim,      // of the set that changes
    output wire                    evicts,      // the victim is valid
    output wire                    draws,
    input  wire  [  SETS*WAYS-1:0] locked,
    output logic [  SETS*WAYS-1:0] is_valid,
    output logic [  SETS*WAYS-1:0] is_modified,
    output wire  [  SETS*WAYS-1:0] used
);
  localparam bit LIST = POLICY == tlb_pkg::LRU || POLICY == tlb_pkg::FIFO;
  localparam int STATE = LIST ? WAYS * WAY_W : WAYS;

  // --- the copies ---
  wire [INDEX_W-1:0] r_index, c_at;
  wire [TAG_W-1:0] r_tag;
  wire [DATA_W-1:0] r_data;
  wire [WAYS-1:0] c_way;
  wire c_touch, c_fill, c_store, c_drop, c_drop_all;
  wire [WAYS-1:0] valid_there;
  wire [WAYS*TAG_W-1:0] tag_there;
  wire [WAYS*DATA_W-1:0] data_there;
  generate
    if (DEEP != 0) begin : g_deep
      logic selected;
      logic [INDEX_W+TAG_W+DATA_W-1:0] request;
      logic [WAYS*(1+TAG_W+DATA_W)-1:0] row;
      logic [4:0] change;
      logic [INDEX_W+WAYS-1:0] place;
      always_ff @(posedge clk) begin
        selected <= select && !rst;
        if (select) request <= {index, tag, data};
        if (selected) row <= {valid_there, tag_there, data_there};
        change <= rst ? '0 : {touch, fill, store, drop, drop_all};
        if (touch || fill || drop) place <= {at, way};
      end
      assign {r_index, r_tag, r_data} = request;
      assign {row_valid, row_tag, row_data} = row;
      assign {c_touch, c_fill, c_store, c_drop, c_drop_all} = change;
      assign {c_at, c_way} = place;
    end else begin : g_flat
      assign {r_index, r_tag, r_data} = {index, tag, data};
      assign {row_valid, row_tag, row_data} = {valid_there, tag_there, data_there};
      assign {c_touch, c_fill, c_store, c_drop, c_drop_all} = {touch, fill, store, drop, drop_all};
      assign {c_at, c_way} = {at, way};
      wire unused = &{1'b0, select};
    end
  endgenerate

  // --- reading ---
  generate
    for (genvar w = 0; w < WAYS; w++) begin : g_way
      logic [TAG_W-1:0] tags[0:SETS-1];
      logic [DATA_W-1:0] words[0:SETS-1];
      assign tag_there[w*TAG_W+:TAG_W] = tags[r_index];
      assign data_there[w*DATA_W+:DATA_W] = words[r_index];
      always_ff @(posedge clk) begin
        if (c_fill && victim[w]) begin
          tags[c_at] <= r_tag;
          words[c_at] <= r_data;
        end
      end
    end
  endgenerate
  logic [WAYS-1:0] r_valid, c_valid, c_locked;
  logic [STATE-1:0] c_state, next, first;
  logic [SETS*STATE-1:0] state;
  always_comb begin
    r_valid = '0;
    c_valid = '0;
    c_locked = '0;
    c_state = '0;
    for (int i = 0; i < SETS; i++) begin
      if (r_index == i[INDEX_W-1:0]) r_valid = r_valid | is_valid[i*WAYS+:WAYS];
      if (c_at == i[INDEX_W-1:0]) begin
        c_valid = c_valid | is_valid[i*WAYS+:WAYS];
        c_locked = c_locked | locked[i*WAYS+:WAYS];
        c_state = c_state | state[i*STATE+:STATE];
      end
    end
  end
  assign valid_there = r_valid;

  // --- changing ---
  policy #(
      .WAYS(WAYS),
      .POLICY(POLICY),
      .FILL_SETS_USED(FILL_SETS_USED)
  ) policy (
      .state(c_state),
      .valid(c_valid),
      .locked(c_locked),
      .number(number),
      .touch(c_touch),
      .join_(1'b0),
      .place(c_fill),
      .way(c_way),
      .victim(victim),
      .draws(draws),
      .next(next)
  );
  assign evicts = (victim & c_valid) != '0;
  wire [WAYS-1:0] changed = c_fill ? victim : c_way;
  always_comb begin
    first = '0;
    if (LIST) for (int w = 0; w < WAYS; w++) first[w*WAY_W+:WAY_W] = w[WAY_W-1:0];
  end
  always_ff @(posedge clk) begin
    for (int i = 0; i < SETS; i++) begin
      if (rst || c_drop_all) begin
        is_valid[i*WAYS+:WAYS] <= '0;
        is_modified[i*WAYS+:WAYS] <= '0;
      end else if (c_at == i[INDEX_W-1:0]) begin
        if (c_fill) begin
          is_valid[i*WAYS+:WAYS] <= c_valid | victim;
          is_modified[i*WAYS+:WAYS] <= (is_modified[i*WAYS+:WAYS] & ~victim) | (c_store ? victim : '0);
        end else if (c_drop) begin
          is_valid[i*WAYS+:WAYS] <= c_valid & ~c_way;
          is_modified[i*WAYS+:WAYS] <= is_modified[i*WAYS+:WAYS] & ~c_way;
        end else if (c_touch && c_store) begin
          is_modified[i*WAYS+:WAYS] <= is_modified[i*WAYS+:WAYS] | changed;
        end
      end
      if (rst) state[i*STATE+:STATE] <= first;
      else if ((c_touch || c_fill) && c_at == i[INDEX_W-1:0]) state[i*STATE+:STATE] <= next;
    end
  end
  assign used = POLICY == tlb_pkg::USED_BIT ? state[SETS*WAYS-1:0] : '0;

`ifdef FORMAL
  // For a new entry one is chosen, a vacant one if there is one, and none that is locked unless all are.
  always @(posedge clk) begin
    if (!rst && c_fill && c_locked != '1) begin
      assert (victim != '0 && (victim & (victim - 1'b1)) == '0 && (victim & c_locked) == '0);
      if ((c_valid | c_locked) != '1) assert ((victim & c_valid) == '0);
    end
  end
`endif
endmodule
