# vextract:template
"""Word problems in the manner of GSM8K, written for this project: for tests, and for a first run without a network.

They are few: enough to see that everything works, far too few to learn arithmetic from.
"""

# Question and answer.
TRAIN = (
    ("A baker sells 12 rolls every hour. How many rolls does she sell in 6 hours?", 72),
    ("Mia has 45 stickers. She gives 8 to each of her 3 cousins. How many stickers are left?", 21),
    ("A bus with 52 seats is half full. At a stop 9 people get on. How many people are in it then?", 35),
    ("Four friends share a bill of 96 euros equally. How many euros does each of them pay?", 24),
    ("A tank holds 300 litres. It loses 15 litres a day. How many litres are in it after 8 days?", 180),
    ("Jon reads 20 pages a day. His book has 240 pages. How many days does he need?", 12),
    ("A ticket costs 7 euros, and half of that for children. What do 4 adults and 2 children pay?", 35),
    ("Ada plants 5 rows of 14 tulips. 11 of them do not grow. How many tulips grow?", 59),
    ("A train leaves at 9 o'clock and arrives at 14 o'clock. It stops for 1 hour. How many hours does it move?", 4),
    ("Sam earns 13 euros an hour. He works 5 hours a day on 4 days. How many euros does he earn?", 260),
    ("A box holds 24 eggs. A farm fills 18 boxes and has 10 eggs left. How many eggs are there?", 442),
    ("Lena is 3 years older than Tom. Tom is twice as old as Kim, who is 8. How old is Lena?", 19),
    ("A rope of 90 metres is cut into pieces of 6 metres. How many cuts does that take?", 14),
    ("A shop lowers a price of 80 euros by a quarter. What does it cost then?", 60),
    ("A class of 28 has 4 more girls than boys. How many girls are there?", 16),
    ("Ben runs 3 kilometres on each weekday and 7 on Sunday. How many kilometres is that in 2 weeks?", 44),
    ("A jug fills 6 glasses. How many jugs are needed for 45 glasses?", 8),
    ("Nora saves 25 cents a day. How many euros has she saved after 60 days?", 15),
    ("A field is 40 metres long and 25 metres wide. How many metres of fence go around it?", 130),
    ("A machine makes 9 parts in 2 minutes. How many parts does it make in an hour?", 270),
    ("There are 7 cats, and 3 birds. How many legs do they have together?", 34),
    ("Eva buys 3 pens for 2 euros each and a book for 11. She pays with 20. What does she get back?", 3),
    ("A third of 63 apples are green, the others are red. How many are red?", 42),
    ("A film lasts 135 minutes. It begins at 20:00, and there is a break of 15 minutes. How many hours until the end "
     "of the evening at 22:30 are then left?", 0),
)  # fmt: skip

VAL = (
    ("A cook uses 4 eggs for each of 9 cakes. How many eggs are that?", 36),
    ("Of 50 chairs, 13 are broken and 6 are lent. How many can be used?", 31),
    ("Six workers dig 42 holes, each the same number. How many does each dig?", 7),
    ("A coat costs 120 euros. It gets a third cheaper. What does it cost then?", 80),
    ("Tim has 17 marbles, Jo has 5 more than he. How many do they have together?", 39),
    ("A car drives 80 kilometres an hour. How far does it get in two and a half hours?", 200),
    ("A garden has 8 beds of 12 carrots. Rabbits eat 19. How many carrots are left?", 77),
    ("Ida is 30. In how many years will she be twice as old as 19?", 8),
)
