(* Conway's life on an unbounded plane; a generation is a sorted list of cells (row, column). *)
fun before ((a, b), (c, d)) = a < c orelse (a = c andalso b < d)

fun merge ([], ys) = ys
  | merge (xs, []) = xs
  | merge (x :: xs, y :: ys) = if before (y, x) then y :: merge (x :: xs, ys) else x :: merge (xs, y :: ys)

fun split [] = ([], [])
  | split [x] = ([x], [])
  | split (x :: y :: rest) = let val (xs, ys) = split rest in (x :: xs, y :: ys) end

fun sort [] = []
  | sort [x] = [x]
  | sort xs = let val (a, b) = split xs in merge (sort a, sort b) end

fun neighbours (r, c) =
  [(r-1, c-1), (r-1, c), (r-1, c+1), (r, c-1), (r, c+1), (r+1, c-1), (r+1, c), (r+1, c+1)]

(* Runs of equal cells become a cell and its count. *)
fun count [] = []
  | count (x :: xs) =
      let fun run (n, y :: ys) = if x = y then run (n + 1, ys) else (n, y :: ys)
            | run (n, []) = (n, [])
          val (n, rest) = run (1, xs)
      in (x, n) :: count rest end

(* Both lists are sorted: a cell lives on with two or three neighbours and comes to life with three. *)
fun survive ([], _) = []
  | survive ((cell, n) :: rest, alive) =
      let fun skip (a :: more) = if before (a, cell) then skip more else a :: more
            | skip [] = []
          val alive = skip alive
          val lives = case alive of a :: _ => a = cell | [] => false
      in if n = 3 orelse (n = 2 andalso lives) then cell :: survive (rest, alive) else survive (rest, alive) end

fun step cells = survive (count (sort (List.concat (map neighbours cells))), cells)

(* Half of a square is alive at first. *)
fun first (seed, side) =
  let fun next x = (x * 1103515245 + 12345) mod 2147483648
      fun row (r, c, x, acc) =
        if r = side then rev acc
        else if c = side then row (r + 1, 0, x, acc)
        else row (r, c + 1, next x, if next x div 65536 mod 2 = 0 then (r, c) :: acc else acc)
  in row (0, 0, seed, []) end

fun generations (seed, side, n) =
  let fun go (cells, 0) = cells
        | go (cells, k) = go (step cells, k - 1)
  in go (first (seed, side), n) end

fun population cells = length cells;
