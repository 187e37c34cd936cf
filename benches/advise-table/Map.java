// A HashMap with the given number of entries, filled, then read in another order.
import java.util.HashMap;

public class Map {
    public static void main(String[] arguments) {
        int n = Integer.parseInt(arguments[0]);
        HashMap<Integer, Integer> map = new HashMap<>();
        for (int i = 0; i < n; i++) map.put(i * 7919, i);
        long sum = 0;
        for (long j = 0; j < 3L * n; j++) sum += map.get((int) (j * 48271 % n) * 7919);
        System.out.println(sum);
    }
}
